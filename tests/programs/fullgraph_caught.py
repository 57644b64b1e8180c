"""EXPECT {"verdict": "no", "breaks": 0, "skipped": 1, "recompiles": 0, "limit": 0, "hits": []}"""
import torch

def f(x):  # SKIPPED
    y = x.sin()
    if y.sum() > 0:
        return y.cos()
    return y.tan()

compiled = torch.compile(f, fullgraph=True)
for _ in range(45):
    try:
        compiled(torch.ones(8))
    except torch._dynamo.exc.Unsupported:
        f(torch.ones(8))
