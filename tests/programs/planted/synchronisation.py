# PLANTS: synchronisation. A value is read back each step, so that what the host does next finds the device idle.
# RUN: --warmup 8 --steps 12 --stop
import torch

from planting import STEPS, Product, pass_gate, spin

work = Product(8192, 4)
forward = torch.compile(work.chain)
with torch.no_grad():
    for step in range(STEPS):
        pass_gate(step)
        forward(work.value)[0, 0].item()
        # shorter than the device's work: without the read it would cost nothing
        spin(0.003)
