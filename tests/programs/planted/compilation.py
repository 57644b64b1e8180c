# PLANTS: compilation. Every step has a shape of its own, and the function is compiled for it.
# RUN: --warmup 5 --steps 3 --stop
import torch

from planting import IS_CUDA, Product, pass_gate

STEPS = 14
torch._dynamo.config.recompile_limit = 2 * STEPS
torch._dynamo.config.accumulated_recompile_limit = 2 * STEPS
SIZE = 4096 if IS_CUDA else 128
work = Product(SIZE, 8)
forward = torch.compile(work.chain, dynamic=False)
with torch.no_grad():
    for step in range(STEPS):
        pass_gate(step)
        forward(work.value[: SIZE - 16 * step])
