# PLANTS: allocation. The allocator's memory goes back to the driver each step, and is asked for again.
# RUN: --warmup 8 --steps 12 --stop
import torch

from planting import DEVICE, IS_CUDA, STEPS, Product, pass_gate

GIBIBYTE = 1 << 30
BLOCKS, BYTES = (6, 2 * GIBIBYTE) if IS_CUDA else (2, 1 << 20)
work = Product(8192, 1)
forward = torch.compile(work.chain)
with torch.no_grad():
    for step in range(STEPS):
        pass_gate(step)
        forward(work.value)
        blocks = [torch.empty(BYTES, dtype=torch.uint8, device=DEVICE) for _ in range(BLOCKS)]
        del blocks
        torch.cuda.empty_cache()
