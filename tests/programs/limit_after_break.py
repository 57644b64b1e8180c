"""EXPECT {"verdict": "partly", "breaks": 1, "skipped": 0, "recompiles": 7, "limit": 1, "hits": [20]}"""
import torch

@torch.compile(backend="eager")
def f(x, names):
    y = x.sin()
    torch._dynamo.graph_break()  # BREAK, LIMIT
    return y * len(names[-1])

for step in range(45):
    f(torch.ones(8), ["x" * (step + 1)])
