# PLANTS: launch call. A CUDA graph of three tiny kernels, launched again and again: the launch takes longer than they do.
# RUN: --warmup 8 --steps 2 --stop
import torch

from planting import DEVICE, IS_CUDA, STEPS, Product, pass_gate

# What prepares the launch of a kernel takes longer than the call that launches it, 5 us: that cannot be most of the
# idle time. Little prepares the launch of a CUDA graph. On an H200, being profiled, the call took 7.7 us, and the
# device began 2.6 us after its return. Three kernels run for 3.3 us: they end when the host, 6.4 us after one call,
# comes to the next, and the device waits for the whole of that launch. After one kernel alone it would wait for the
# host's way to the call, too. A graph of many nodes does not plant it, not even with the nodes side by side: the
# device begins at once and keeps up with the call, or is the slower side itself.
SIZE, LENGTH = 32, 3
REPLAYS = 1000
# The first graph that is launched in a window waits for a buffer of the profiler, 2 ms: the device is busy meanwhile.
BUSY_CYCLES = 5_000_000
work = Product(256, 1)
forward = torch.compile(work.chain)
value = torch.zeros(SIZE if IS_CUDA else 1, device=DEVICE)

with torch.no_grad():
    for step in range(STEPS):
        if step == 1 and IS_CUDA:
            value.add_(1)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(LENGTH):
                    value.add_(1)
        pass_gate(step)
        forward(work.value)
        if step >= 1 and IS_CUDA:
            torch.cuda._sleep(BUSY_CYCLES)
        for _ in range(REPLAYS):
            if step >= 1 and IS_CUDA:
                graph.replay()
            else:
                value.add_(1)
