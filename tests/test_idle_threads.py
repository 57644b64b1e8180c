"""Idle time where the launching thread tells nothing by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope.analyses.idle import idle
from small_trace import kernel, launch, links_of, op


@pytest.mark.parametrize("after", [[], [op("aten::add", 90, 5, tid=2)]])
def test_a_launch_that_takes_no_time_and_is_alone_on_its_thread(
    tmp_path: Path, after: list[dict[str, Any]]
) -> None:
    """Idle from 30 to 70, when work of thread 2 starts that was launched at 60: until 40 thread 1 is in an
    operator, until 60 no thread has anything open, and then the launch is on its way.
    """
    found = idle(
        links_of(
            tmp_path,
            op("aten::add", 0, 40),
            launch(1, 10, 5),
            launch(2, 60, 0, tid=2),
            kernel("k1", 1, 20, 10),
            kernel("k2", 2, 70, 10),
            after,
        )
    )
    assert found is not None
    assert {each.cause: each.total_ns for each in found.by_cause} == {
        "Python between regions": 20_000,
        "eager operator overhead": 10_000,
        "launch call": 10_000,
    }
