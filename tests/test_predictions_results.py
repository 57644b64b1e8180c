"""The kept measurements: predictions are as near to what was measured on a GPU as they have to be."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kinetoscope
from helpers import TRACES

ROOT = TRACES.parents[1]
FOLDER = ROOT / "benchmarks" / "predictions"
RESULTS = FOLDER / "results"
SOURCE = str(Path(kinetoscope.__file__).parents[1])

ROWS = """
import json
from pathlib import Path
from catalogue import PAIRS
from table import row_of
results = Path("results")
truths = json.loads((results / "truths.json").read_text())["pairs"]
for pair in PAIRS.values():
    row = row_of(results, pair, truths[pair.name])
    found = row.found
    print(json.dumps({
        "name": pair.name, "held_out": pair.held_out, "control": pair.control,
        "predicted": found.predicted_ns / 1e6, "low": found.low_ns / 1e6, "high": found.high_ns / 1e6,
        "device": found.is_device_bound_after, "verdict": found.verdict, "measured": truths[pair.name],
    }))
"""


def python(*arguments: str) -> str:
    """What a script beside the benchmarks prints."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=FOLDER,
        env={**os.environ, "PYTHONPATH": SOURCE, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """The prediction and the truth of each pair, errors worked out here."""
    found = [json.loads(line) for line in python("-c", ROWS).splitlines()]
    for row in found:
        after = row["measured"]["after"]
        row["after"] = statistics.median(each["median_ms"] for each in after)
        row["error"] = abs(row["predicted"] / row["after"] - 1)
        low, high = min(each["low_ms"] for each in after), max(each["high_ms"] for each in after)
        row["in_spread"] = low <= row["predicted"] <= high
    return found


def test_all_pairs_were_measured(rows: list[dict[str, Any]]) -> None:
    assert len(rows) == 30
    assert sum(not row["control"] for row in rows) >= 16
    assert sum(row["control"] for row in rows) >= 5
    for row in rows:
        assert all(len(row["measured"][side]) >= 2 for side in ("before", "after")), row["name"]


@pytest.mark.parametrize("held_out", [False, True], ids=["known", "set aside"])
@pytest.mark.parametrize(
    ("device", "median", "worst"), [(True, 0.03, 0.06), (False, 0.12, 0.25)], ids=["device", "host"]
)
def test_errors(
    rows: list[dict[str, Any]], held_out: bool, device: bool, median: float, worst: float
) -> None:
    some = [row for row in rows if row["held_out"] is held_out and row["device"] is device]
    assert len(some) >= 5
    assert statistics.median(row["error"] for row in some) <= median
    assert [row["name"] for row in some if row["error"] > worst and not row["in_spread"]] == []


def test_ranges_hold_what_was_measured(rows: list[dict[str, Any]]) -> None:
    held = [row["low"] <= row["after"] <= row["high"] for row in rows]
    assert sum(held) >= 0.9 * len(held)


def test_no_gain_is_claimed_for_a_control(rows: list[dict[str, Any]]) -> None:
    assert [row["name"] for row in rows if row["control"] and row["verdict"] == "gain"] == []


def test_the_page_shows_these_results() -> None:
    page = (ROOT / "docs" / "predictions.md").read_text(encoding="utf-8")
    shown = page.split("<!-- predictions -->\n")[1].split("<!-- /predictions -->")[0]
    assert shown.strip() == python("table.py", "results", "--held-out").strip()


def test_captures_were_made_with_no_profiler_before_the_timed_steps() -> None:
    manifests = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*/manifest.json"))]
    assert len(manifests) == 30
    assert all(manifest["profiler"]["device_recorded_before"] is False for manifest in manifests)
    assert all(manifest["status"] == "complete" for manifest in manifests)
