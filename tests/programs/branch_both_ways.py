"""EXPECT {"verdict": "yes", "breaks": 1, "skipped": 0, "recompiles": 0, "limit": 0, "hits": [20]}"""
import torch

@torch.compile(backend="eager")
def f(x):
    y = x.sin()
    if y.sum() > 0:  # BREAK
        return y.cos()
    return y.tan()

for step in range(45):
    f(torch.full((8,), 1.0 if step % 3 else -1.0))
