# PLANTS: Python between regions. The loop computes in Python for twice as long as the device has work.
# RUN: --warmup 8 --steps 12 --stop
import torch

from planting import STEPS, Product, pass_gate, spin

work = Product()
forward = torch.compile(work.chain)
with torch.no_grad():
    for step in range(STEPS):
        pass_gate(step)
        forward(work.value)
        spin(0.010)
