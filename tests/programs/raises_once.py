"""EXPECT {"verdict": "no", "breaks": 0, "skipped": 1, "recompiles": 0, "limit": 0, "hits": []}"""
import contextlib
import torch

@torch.compile(backend="eager")  # SKIPPED
def f(x):
    if x.shape[0] == 9:
        raise ValueError("bad batch")
    return x.sin()

for step in range(45):
    with contextlib.suppress(ValueError):
        f(torch.ones(9 if step == 5 else 8))
