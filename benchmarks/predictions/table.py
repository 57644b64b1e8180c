"""Predicted against measured: asks `kinetoscope whatif` of each capture, and compares with the truths.

Usage: python benchmarks/predictions/table.py RESULTS [--held-out] [--markdown FILE]

RESULTS is what `measure.py` wrote. Pairs that are held out are left out, so that nothing is tuned on them,
unless ``--held-out`` asks for them, which then are reported apart. ``--markdown`` writes the table into FILE,
between the lines ``<!-- predictions -->`` and ``<!-- /predictions -->``.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from catalogue import PAIRS, Pair

from kinetoscope.ingest import load
from kinetoscope.ingest.unprofiled import Unprofiled
from kinetoscope.link import link
from kinetoscope.replay.build import build
from kinetoscope.replay.predict import Before, Prediction, predict
from kinetoscope.replay.whatif import changes_of


@dataclass(frozen=True)
class Row:
    """One pair: measured milliseconds of both sides, and the prediction."""

    pair: Pair
    before_ms: float
    after_ms: float
    after_low_ms: float
    after_high_ms: float
    found: Prediction

    @property
    def predicted_ms(self) -> float:
        return self.found.predicted_ns / 1e6

    @property
    def error(self) -> float:
        """Of the predicted step, relative to the measured one."""
        return self.predicted_ms / self.after_ms - 1

    @property
    def is_within_spread(self) -> bool:
        """Whether the truth itself varied as much."""
        return self.after_low_ms <= self.predicted_ms <= self.after_high_ms

    @property
    def is_covered(self) -> bool:
        return self.found.low_ns / 1e6 <= self.after_ms <= self.found.high_ns / 1e6


def row_of(folder: Path, pair: Pair, truth: dict[str, list[dict[str, float]]]) -> Row | None:
    """The comparison of one pair; None where one side was not measured."""
    if not truth["before"] or not truth["after"] or not (folder / pair.name / "manifest.json").exists():
        return None
    manifest = json.loads((folder / pair.name / "manifest.json").read_text())
    model = build(link(load(str(folder / pair.name / "trace.json.gz"))))
    if model is None:
        return None
    options = list(pair.options)
    kernels = []
    if "--kernel" in options:
        at = options.index("--kernel")
        kernels = [options[at + 1]]
        del options[at : at + 2]
    before = Before.of(model, Unprofiled.of(manifest))
    after = truth["after"]
    return Row(
        pair=pair,
        before_ms=statistics.median(each["median_ms"] for each in truth["before"]),
        after_ms=statistics.median(each["median_ms"] for each in after),
        after_low_ms=min(each["low_ms"] for each in after),
        after_high_ms=max(each["high_ms"] for each in after),
        found=predict(before, changes_of(options, kernels)),
    )


def table(rows: Sequence[Row]) -> list[str]:
    """Lines of Markdown."""
    lines = [
        "| program | change | before | capture | after | predicted | range | error | said |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        found = row.found
        said = f"{found.verdict}{' (control)' if row.pair.control else ''}"
        lines.append(
            f"| {row.pair.name.replace('_', ' ')} | {' '.join(f'`{o}`' for o in row.pair.options)}"
            f" | {row.before_ms:.3f} | {found.replayed_ns / 1e6:.3f} | {row.after_ms:.3f}"
            f" | {row.predicted_ms:.3f} | {found.low_ns / 1e6:.3f} to {found.high_ns / 1e6:.3f}"
            f" | {row.error:+.0%} | {said} |"
        )
    return lines


def summary(rows: Sequence[Row]) -> list[str]:
    """Errors of the pairs whose result the device sets, of those that the host does, and of the controls."""
    lines = []
    for name, is_device in (("device-bound after the fix", True), ("host-bound after the fix", False)):
        some = [row for row in rows if row.found.is_device_bound_after == is_device]
        errors = sorted(abs(row.error) for row in some)
        if not errors:
            continue
        outside = [row for row in some if not row.is_within_spread]
        worst = max(some, key=lambda row: abs(row.error))
        beyond = max((abs(row.error) for row in outside), default=0.0)
        lines.append(
            f"- {name}: {len(errors)} pairs, median error {statistics.median(errors):.1%}, worst"
            f" {errors[-1]:.1%} ({worst.pair.name.replace('_', ' ')}); of those outside the truth's own"
            f" spread, worst {beyond:.1%}"
        )
    covered = sum(row.is_covered for row in rows)
    lines.append(f"- the range holds the measured step in {covered} of {len(rows)} pairs")
    claimed = [row.pair.name for row in rows if row.pair.control and row.found.verdict == "gain"]
    controls = sum(row.pair.control for row in rows)
    lines.append(
        f"- controls for which a gain was claimed: {len(claimed)} of {controls} {' '.join(claimed)}".rstrip()
    )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    truths = json.loads((options.results / "truths.json").read_text())["pairs"]
    text: list[str] = []
    for held_out in (False, True) if options.held_out else (False,):
        found = [
            row_of(options.results, pair, truths[pair.name])
            for pair in PAIRS.values()
            if pair.held_out is held_out and pair.name in truths
        ]
        rows = [row for row in found if row is not None]
        if rows:
            title = (
                "Set aside before anything was measured:" if held_out else "Known while the method was made:"
            )
            text += [title, "", *table(rows), "", *summary(rows), ""]
    print("\n".join(text))
    if options.markdown is not None:
        page = options.markdown.read_text(encoding="utf-8")
        marks = r"(<!-- predictions -->\n).*(<!-- /predictions -->)"
        page = re.sub(marks, lambda m: m[1] + "\n".join(text) + m[2], page, flags=re.S)
        options.markdown.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
