# PLANTS: region prologue and wrapper. The program's own backend checks the inputs in Python before each call of the graph.
# RUN: --warmup 8 --steps 20 --stop
import torch
from torch._inductor.compile_fx import compile_fx

from planting import STEPS, Product, pass_gate, spin

work = Product(4096, 1)


def checking(module, inputs):
    compiled = compile_fx(module, inputs)

    def run(*values):
        spin(0.003)
        return compiled(*values)

    return run


forward = torch.compile(work.chain, backend=checking)
with torch.no_grad():
    for step in range(STEPS):
        pass_gate(step)
        forward(work.value)
