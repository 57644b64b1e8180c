"""What a cause of idle time means, and what helps, in a sentence each: for who meets its name on a page."""

from __future__ import annotations

from collections.abc import Mapping

#: cause, as the analysis names it: what the CPU did meanwhile, and what helps
ABOUT: Mapping[str, tuple[str, str]] = {
    "Python between regions": (
        "the CPU ran code of the program that the trace does not name",
        "less Python a step, or a larger part compiled",
    ),
    "eager operator overhead": (
        "the CPU prepared operators outside compiled code",
        "compile them; fewer, larger operators",
    ),
    "host code of compiled graphs": (
        "the CPU ran the code that the compiler made to launch its kernels",
        'CUDA graphs (mode="reduce-overhead"), larger batches',
    ),
    "region prologue and wrapper": (
        "the CPU entered and left compiled regions",
        "fewer regions: remove graph breaks",
    ),
    "guard lookup": (
        "the CPU checked whether the compiled code still fits the inputs",
        "fewer guards",
    ),
    "graph break": (
        "the CPU went from one piece of a function to the next",
        "remove the break: the Compile page names its line",
    ),
    "launch call": (
        "the CPU launched the next work, from the call until the device had begun",
        "CUDA graphs; fewer kernels",
    ),
    "between queued kernels": (
        "work was waiting, and the device took its time between two pieces",
        "fewer, larger kernels",
    ),
    "other stream's dependency": (
        "the stream was told to wait for another one",
        "look at what the streams wait for",
    ),
    "synchronisation": (
        "the CPU waited for the device, which then ran out of work",
        "remove .item(), .cpu(), print of a tensor, torch.cuda.synchronize()",
    ),
    "host-device copy": (
        "the CPU waited for a copy between it and the device",
        "pinned memory and non_blocking=True",
    ),
    "allocation": ("the CPU asked the driver for memory", "keep memory: allocate before the loop"),
    "collective or another rank": (
        "the CPU prepared or waited for communication",
        "look at the rank that comes last",
    ),
    "data loading": ("the CPU waited for the next batch", "more workers of the data loader"),
    "compilation": ("the CPU compiled", "record after warm-up"),
    "profiler overhead": (
        "the CPU wrote the profiler's buffers, which the program does not do by itself",
        "nothing: leave it out",
    ),
    "unknown": ("the trace does not tell", ""),
}


def sentence(cause: str) -> str:
    """Both in one line."""
    did, helps = ABOUT[cause]
    return f"{did}. What helps: {helps}." if helps else f"{did}."
