# PLANTS: host code of compiled graphs. A graph allocates hundreds of tiny buffers and launches next to nothing.
# RUN: --warmup 8 --steps 20 --stop
import torch

from planting import DEVICE, IS_CUDA, STEPS, Product, pass_gate

PARTS, ROUNDS = (60, 10) if IS_CUDA else (6, 2)


@torch.library.custom_op("planted::total", mutates_args=())
def total(parts: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat(parts)


@total.register_fake
def _(parts):
    return parts[0].new_empty(64 * len(parts))


work = Product(4096, 1)
small = torch.randn(64, device=DEVICE)


@torch.compile
def forward(value, small):
    # one fused kernel writes all parts of a round, each into a buffer of its own
    for _ in range(ROUNDS):
        small = total([small * (1 + part / 256) for part in range(PARTS)])[:64]
    return work.chain(value), small


with torch.no_grad():
    for step in range(STEPS):
        pass_gate(step)
        forward(work.value, small)
