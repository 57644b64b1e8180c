# PLANTS: other stream's dependency. Tiny kernels on two streams take turns, and wait for each other through others.
# RUN: --warmup 8 --steps 8 --stop
# IDLE: 2 %, since the device sets the pace: what is idle lies between kernels.
import itertools

import torch

from planting import DEVICE, IS_CUDA, STEPS, Product, pass_gate

TURNS, HOPS = 40, 6
# more than the host needs to put all turns into the queue
work = Product(8192, 2)
forward = torch.compile(work.chain)
small = torch.zeros(256, device=DEVICE)
if IS_CUDA:
    main = torch.cuda.current_stream()
    sides = [torch.cuda.Stream() for _ in range(4)]
    events = [torch.cuda.Event() for _ in range(5)]


def hand_over(streams):
    """Each stream waits for the one before it."""
    for number, (before, after) in enumerate(itertools.pairwise(streams)):
        event = events[number % len(events)]
        event.record(before)
        after.wait_event(event)


def take_turns():
    one, other, *between = sides
    hand_over([main, one])
    for _ in range(TURNS):
        hand_over([one, *(between * HOPS)[:HOPS], other])
        with torch.cuda.stream(other):
            small.add_(1)
        one, other = other, one
    hand_over([one, main])


with torch.no_grad():
    for step in range(STEPS):
        pass_gate(step)
        forward(work.value)
        if IS_CUDA:
            take_turns()
        else:
            small.add_(1)
