"""How much longer steps take under the profiler, from what a capture timed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.schema import Finding
from test_join_captures import capture, report


def distortion_of(where: Path) -> list[Finding]:
    return [finding for finding in report(where).findings if finding.code == "profiler-distortion"]


def block(mean_ns: int | None, steps: int, *host_ns: int) -> dict[str, Any]:
    known = {"host_ns": list(host_ns), "wall_ns": sum(host_ns)} if host_ns else {}
    return {"mean_ns": mean_ns, "steps": steps, **known}


@pytest.mark.parametrize(
    ("steps", "title"),
    [
        ({"before": block(1000, 10), "profiled": block(1500, 20), "after": None}, "50 %"),
        # the same number as the head of the report has: steps before the profiler, whatever came after it
        ({"before": block(1000, 10), "profiled": block(1265, 20), "after": block(1200, 30)}, "26 % longer"),
        ({"before": block(1000, 1), "profiled": block(1265, 20), "after": block(1100, 30)}, "15 % longer"),
        # 5,800 in all, of which the first 3,000: 4 steps of 700
        ({"before": block(500, 10), "profiled": block(1160, 5, 3000, 700, 700, 700, 700)}, "40 % longer"),
        # twice as long is no percentage of a whole
        ({"before": block(1000, 10), "profiled": block(2500, 20)}, "2.5 times as long as"),
        ({"before": block(1000, 10), "profiled": block(1040, 20)}, None),
        ({"before": block(1000, 1), "profiled": block(1500, 20)}, None),
        ({"before": block(1000, 10), "profiled": block(1500, 2)}, None),
        ({"before": block(None, 0), "profiled": block(1500, 20)}, None),
        ({"before": None, "profiled": None}, None),
        ({}, None),
    ],
)
def test_distortion_by_the_profiler(tmp_path: Path, steps: Mapping[str, Any], title: str | None) -> None:
    found = distortion_of(capture(tmp_path / "c", steps=steps))
    assert [title in f.title for f in found if title] == ([True] if title else [])
    assert len(found) == (1 if title else 0)


@pytest.mark.parametrize(
    ("mean_ns", "per_step", "said"),
    [
        # 20,000 in all, of which the first 1,000 and, three steps later, 16,000: 2 steps of 1,500
        (5000, [1, 0, 0, 0, 0, 2, 0], ("50 % longer", "1.50 us under the profiler (without 1 step in which")),
        # nobody counted: nothing is left out but the first
        (5000, None, ("6.3 times as long as", "6.33 us under the profiler and 1.00 us without it")),
        # the program ended in its next step, and only whole steps count: (1,000 + 1,000) / 2
        (4750, [0, 0, 0, 0, 0, 1, 0, 1], None),
        # no profiled step is a usual one
        (5000, [0, 0, 1, 1, 1, 1], None),
    ],
)
def test_a_step_that_compiles_is_not_slow_for_the_profiler(
    tmp_path: Path, mean_ns: int, per_step: list[int] | None, said: tuple[str, str] | None
) -> None:
    pace = (1000, 1500, 1500, 16000) if mean_ns == 5000 else (1000, 1000, 1000, 16000)
    where = capture(
        tmp_path / "c",
        steps={"before": block(1000, 10), "profiled": {**block(mean_ns, 4, *pace), "wall_ns": 90_000}},
        window={"kind": "steps", "first_step": 2},
        compilations={"total": 4, "per_step": per_step},
    )
    found = distortion_of(where)
    assert len(found) == (0 if said is None else 1)
    if said is not None:
        assert said[0] in found[0].title
        assert said[1] in found[0].detail
