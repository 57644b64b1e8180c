# PLANTS: graph break. What lies behind a break has guards of its own: a table is compared on the way to each piece.
# RUN: --warmup 8 --steps 20 --stop
import torch

from planting import STEPS, Product, pass_gate


class Table:
    """A constant for the compiler: its guard is ``==``."""

    def __init__(self):
        self.values = [float(number) for number in range(150_000)]

    def __eq__(self, other):
        return self.values == other.values

    def __hash__(self):
        return len(self.values)


torch.utils._pytree.register_constant(Table)
work = Product(4096, 1)


@torch.compile(dynamic=False)
def forward(value, table):
    value = work.chain(value)
    torch._dynamo.graph_break()
    value = value * len(table.values)
    torch._dynamo.graph_break()
    value = value / len(table.values)
    torch._dynamo.graph_break()
    return value + len(table.values)


# equal, but not the same object: that would be seen at once
first, other = Table(), Table()
with torch.no_grad():
    for step in range(STEPS):
        pass_gate(step)
        forward(work.value, first if step == 0 else other)
