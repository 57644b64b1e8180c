# PLANTS: between queued kernels. One CUDA graph of tiny kernels, fills and copies: the device changes from node to node.
# RUN: --warmup 8 --steps 8 --stop
# IDLE: 2 %, since the device sets the pace: what is idle lies between kernels.
import torch

from planting import DEVICE, IS_CUDA, STEPS, Product, pass_gate

NODES = 150
work = Product(8192, 1)
forward = torch.compile(work.chain)
one, other = torch.zeros(256, device=DEVICE), torch.zeros(256, device=DEVICE)


def tiny():
    for _ in range(NODES):
        one.add_(1)
        other.copy_(one)
        one.zero_()


with torch.no_grad():
    for step in range(STEPS):
        if step == 1 and IS_CUDA:
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                tiny()
        pass_gate(step)
        # keeps the device busy while the host launches the graph
        forward(work.value)
        if step >= 1 and IS_CUDA:
            graph.replay()
        else:
            tiny()
