"""A training loop that times its own steps; it knows nothing of who watches it.

Usage: overhead_program.py OUT.json [--device cuda] [--steps N] [--profile] [--gate FILE]

Writes the milliseconds of every step. ``--profile`` wraps steps 40 to 59 in torch.profiler, with
the settings that a capture uses by default. ``--gate``: after three steps it makes FILE.ready and
waits until FILE.go exists, so that many can start side by side and then be timed one by one.
"""

import argparse
import json
import time
from pathlib import Path

import torch

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
parser.add_argument("--steps", type=int, default=160)
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--layers", type=int, default=8)
parser.add_argument("--profile", action="store_true")
parser.add_argument("--gate")
options = parser.parse_args()

layers = []
for _ in range(options.layers):
    layers += [
        torch.nn.Linear(options.width, options.width),
        torch.nn.GELU(),
        torch.nn.LayerNorm(options.width),
    ]
model = torch.nn.Sequential(*layers).to(options.device)
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
batch = torch.randn(512, options.width, device=options.device)


def settle() -> None:
    if options.device == "cuda":
        torch.cuda.synchronize()


times = []
profiler = None
for number in range(options.steps):
    if options.gate and number == 3:
        Path(options.gate + ".ready").touch()
        while not Path(options.gate + ".go").exists():
            time.sleep(0.01)
    if options.profile and number == 40:
        profiler = torch.profiler.profile()
        profiler.start()
    settle()
    started = time.perf_counter()
    loss = compiled(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    settle()
    times.append((time.perf_counter() - started) * 1e3)
    if profiler is not None and number == 59:
        profiler.stop()
        profiler = None
with open(options.out, "w") as file:
    json.dump(times, file)
