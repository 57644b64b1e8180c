# PLANTS: guard lookup. A table is a constant of the compiled code: every call compares it with the one compiled for.
# RUN: --warmup 8 --steps 20 --stop
import torch

from planting import STEPS, Product, pass_gate


class Table:
    """A constant for the compiler: its guard is ``==``."""

    def __init__(self):
        self.values = [float(number) for number in range(300_000)]

    def __eq__(self, other):
        return self.values == other.values

    def __hash__(self):
        return len(self.values)


torch.utils._pytree.register_constant(Table)
work = Product(4096, 1)


@torch.compile
def forward(value, table):
    return work.chain(value) * len(table.values)


# equal, but not the same object: that would be seen at once
first, other = Table(), Table()
with torch.no_grad():
    for step in range(STEPS):
        pass_gate(step)
        forward(work.value, first if step == 0 else other)
