# PLANTS: launch call. A CUDA graph of many tiny kernels, side by side: to launch it takes the host longer than the device.
# RUN: --warmup 8 --steps 2 --stop
import torch

from planting import DEVICE, IS_CUDA, STEPS, Product, pass_gate

# A call that launches one kernel takes some 5 us, but what prepares it takes longer: it cannot be most of the idle
# time. The call that launches a graph can: on an H200, being profiled, it took 75 us for 50 nodes and 350 us for 450,
# and the device began when it returned. In one chain these 450 ran for 460 us, longer than the call; in branches they
# run side by side. What else the host does in a step fits into the time of the graph that was launched before.
BRANCHES, LENGTH = 16, 24
REPLAYS = 14
work = Product(256, 1)
forward = torch.compile(work.chain)
values = [torch.zeros(32, device=DEVICE) for _ in range(BRANCHES)]


def branches(sides):
    """A chain of kernels for each value; no chain waits for another."""
    main = torch.cuda.current_stream()
    for side in sides:
        side.wait_stream(main)
    for value, side in zip(values, sides, strict=True):
        with torch.cuda.stream(side):
            for _ in range(LENGTH):
                value.add_(1)
    for side in sides:
        main.wait_stream(side)


with torch.no_grad():
    for step in range(STEPS):
        if step == 1 and IS_CUDA:
            sides = [torch.cuda.Stream() for _ in values]
            values[0].add_(1)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                branches(sides)
        pass_gate(step)
        forward(work.value)
        for _ in range(REPLAYS):
            if step >= 1 and IS_CUDA:
                graph.replay()
            else:
                values[0].add_(1)
