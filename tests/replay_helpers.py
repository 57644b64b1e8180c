"""Models of hand-written steps."""

from __future__ import annotations

from pathlib import Path

from helpers import Event, call, kernel, links_of, note, op, region
from kinetoscope.replay import Model, build

STEPS = 6


def model_of(tmp_path: Path, events: list[Event]) -> Model:
    model = build(links_of(tmp_path, events))
    assert model is not None
    return model


def steps(length_us: float, events_of: object) -> list[Event]:
    events: list[Event] = []
    for number in range(STEPS):
        events.append(note(f"ProfilerStep#{number}", length_us * number, length_us))
        events += events_of(length_us * number, 10 * number)  # type: ignore[operator]
    return events


def compiled_step(at: float, first: int) -> list[Event]:
    """400 us: a lookup of 30, a region of 300 with a graph of 250 that launches three kernels of 20 us."""
    events = [
        op("TorchDynamo Cache Lookup", at + 10, 30),
        region("0/0", at + 50, 300),
        op("## Call CompiledFxGraph f ##", at + 80, 250),
    ]
    for number in range(3):
        start = at + 100 + 70 * number
        events += [
            op("triton_poi_fused_0", start, 40),
            call(first + number + 1, start + 10, 20),
            kernel(first + number + 1, start + 32, 20, name="triton_poi_fused_0"),
        ]
    return events
