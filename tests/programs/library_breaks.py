"""EXPECT {"verdict": "yes", "breaks": 1, "skipped": 0, "recompiles": 0, "limit": 0, "hits": [20]}"""
import json
import torch

@torch.compile(backend="eager")
def f(x):
    y = x.sin()
    text = json.dumps({"a": 1})  # BREAK
    return y.cos() * len(text)

for _ in range(45):
    f(torch.ones(8))
