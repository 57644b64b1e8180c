"""What watching costs, inside one process: steps with and without it in turn, compared pair by pair.

Processes differ by far more than the cost of a hook, so `overhead.py` cannot bound it closely. Here
the same process runs short blocks of steps in turn, in random order within each pair:

* ``--mode hooks``: start this under ``kinetoscope run --warmup 100000 --no-report``; the hooks that
  see the program's steps are taken away and put back between blocks. Everything else that a run adds,
  such as the compile log and Inductor's switches, is on in both: ``overhead.py`` measures it;
* ``--mode profiled``: start this alone; blocks are profiled by torch.profiler as a program would,
  and by the session that a capture uses, with its step marks.

Prints the mean and the median ratio of the blocks' medians with bootstrap 95 % intervals, as JSON.
"""

import argparse
import gc
import json
import random
import statistics
import time
from collections.abc import Callable

import torch

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--mode", choices=["hooks", "profiled"], required=True)
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
parser.add_argument("--pairs", type=int, default=40)
parser.add_argument("--block", type=int, default=20, help="steps of a block")
parser.add_argument("--layers", type=int, default=8)
options = parser.parse_args()

width = 256
layers = []
for _ in range(options.layers):
    layers += [torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.LayerNorm(width)]
model = torch.nn.Sequential(*layers).to(options.device)
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
batch = torch.randn(512, width, device=options.device)


def settle() -> None:
    if options.device == "cuda":
        torch.cuda.synchronize()


def step() -> None:
    loss = compiled(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    settle()


def block(after_step: Callable[[], None] = lambda: None) -> float:
    """Median milliseconds of the steps of a block."""
    times = []
    for _ in range(options.block):
        started = time.perf_counter()
        step()
        after_step()
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


def hooks_block(watched: bool) -> float:
    from kinetoscope.capturing.hooks import StepHooks

    found = [item for item in gc.get_objects() if type(item) is StepHooks]
    assert len(found) == 1, "start this under `kinetoscope run --warmup 100000 --no-report`"
    hooks = found[0]
    assert hooks.pulse.thread, "the capture is over already"
    if watched:
        assert hooks._optimizer_handle is not None
        assert hooks._compiled, "compiled calls are not seen"
        return block()
    # As when the capture is over, and back.
    thread, contexts = hooks.pulse.thread, dict(hooks._compiled)
    hooks.stop()
    try:
        return block()
    finally:
        hooks.pulse.thread = thread
        for context, enter in contexts.items():
            context.enter_exit_hooks.append(enter)
            hooks._compiled[context] = enter
        hooks.watch_optimizers()


def profiled_block(watched: bool) -> float:
    if not watched:
        with torch.profiler.profile() as profiler:
            return block(profiler.step)
    from kinetoscope.capturing.session import ProfileSession

    session = ProfileSession()
    session.start()
    number = 0

    def mark() -> None:
        nonlocal number
        number += 1
        session.mark_step(number)

    try:
        session.mark_step(0)
        return block(mark)
    finally:
        session.stop()


measure = hooks_block if options.mode == "hooks" else profiled_block
for _ in range(60):
    step()
rng = random.Random(0)
pairs = []
for number in range(options.pairs + 2):
    order = [True, False]
    rng.shuffle(order)
    made = {watched: measure(watched) for watched in order}
    if number >= 2:
        pairs.append((made[True], made[False]))
ratios = [watched / alone for watched, alone in pairs]


def interval(statistic: Callable[[list[float]], float]) -> dict[str, float]:
    """The statistic of the pairs' ratios, and where it falls in 95 % of resampled pairs."""
    drawn = sorted(statistic(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
    return {"ratio": statistic(ratios), "low": drawn[50], "high": drawn[-51]}


print(
    json.dumps(
        {
            "mode": options.mode,
            "step_ms_without": statistics.median(alone for _, alone in pairs),
            "step_ms_with": statistics.median(watched for watched, _ in pairs),
            "mean": interval(statistics.fmean),
            "median": interval(statistics.median),
            "median_difference_us": statistics.median(1e3 * (w - a) for w, a in pairs),
            "pairs": len(pairs),
        }
    )
)
