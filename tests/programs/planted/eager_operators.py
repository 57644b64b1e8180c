# PLANTS: eager operator overhead. Operators on the CPU, none of them compiled, prepare the next step.
# RUN: --warmup 8 --steps 12 --stop
import torch

from planting import STEPS, Product, pass_gate

torch.set_num_threads(1)
work = Product(4096, 1)
forward = torch.compile(work.chain)
columns = torch.randn(16384)


def normalise(values):
    for _ in range(20):
        values = torch.cumsum(values, 0)
        values = torch.sort(values).values
        values = torch.nn.functional.layer_norm(values, values.shape)
    return values


with torch.no_grad():
    for step in range(STEPS):
        pass_gate(step)
        forward(work.value)
        normalise(columns)
