# PLANTS: collective or another rank. Rank 1 is late, and rank 0 waits for it in an all-reduce of CPU tensors.
# RUN: --warmup 8 --steps 12 --stop
# RANKS: 2
import os
import time

import torch
import torch.distributed as dist

from planting import IS_CUDA, STEPS, Product, pass_gate

if IS_CUDA:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
dist.init_process_group("gloo")
rank = dist.get_rank()
work = Product(8192, 1)
forward = torch.compile(work.chain)
metric = torch.ones(16)
with torch.no_grad():
    for step in range(STEPS):
        pass_gate(step, is_leader=rank == 0)
        forward(work.value)
        if rank == 1:
            time.sleep(0.010)
        try:
            dist.all_reduce(metric, op=dist.ReduceOp.MAX)
        except RuntimeError:
            # rank 0 has stopped with its trace; that of this one is not wanted
            if rank == 0:
                raise
            break
dist.destroy_process_group()
