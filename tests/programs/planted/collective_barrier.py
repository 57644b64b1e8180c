# PLANTS: collective or another rank. Rank 1 is late at a barrier, and rank 0 has host work to do behind it.
# RUN: --warmup 8 --steps 12 --stop
# RANKS: 2 DEVICES: 2
import os
import time

import torch
import torch.distributed as dist

from planting import IS_CUDA, STEPS, Product, pass_gate, spin

if IS_CUDA:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl" if IS_CUDA else "gloo")
rank = dist.get_rank()
work = Product(8192, 3)
forward = torch.compile(work.chain)
with torch.no_grad():
    for step in range(STEPS):
        pass_gate(step, is_leader=rank == 0)
        forward(work.value)
        if rank == 1:
            time.sleep(0.010)
        dist.barrier()
        spin(0.003)
dist.destroy_process_group()
