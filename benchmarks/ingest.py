"""How long a large trace takes, and how much memory, beside other ways to read the same file.

    python benchmarks/ingest.py                                  1.14 GB made from the sample
    python benchmarks/ingest.py TRACE --size 1.14GB              the same from a trace of yours
    python benchmarks/ingest.py --quick                          a few megabytes: does it run?
    python benchmarks/ingest.py --table docs/benchmarks.md       put the table into that page

All runs are of one session, one after another, each in a process of its own, with the file in the system's
cache. kinetoscope makes the whole JSON report; the others only load the file. Needs up to three times
the size of the file on disk, in a temporary directory that is removed at the end.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import measure
import replicate

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "samples" / "graph_breaks" / "trace.json.gz"
QUICK_BYTES = 8_000_000
_MARKS = ("<!-- benchmark: ingest begin -->\n", "<!-- benchmark: ingest end -->\n")
#: memory that a loader needs for each byte of the file, about
_LOADER_FACTOR = 9
#: runs of two things that are compared by turns, at least
_TURNS = 5

# The time to take the loaded objects apart again is not counted: the process ends at once.
_LOADERS = {
    "json.loads": "import json, os, sys\njson.loads(open(sys.argv[1], 'rb').read())\nos._exit(0)",
    "orjson.loads": "import orjson, os, sys\norjson.loads(open(sys.argv[1], 'rb').read())\nos._exit(0)",
    "HolisticTraceAnalysis": (
        "import os, sys\nfrom hta.trace_analysis import TraceAnalysis\n"
        "TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=os.path.dirname(sys.argv[1]))\nos._exit(0)"
    ),
}
# Analysis alone, of a trace that is loaded; "part" leaves out what explains idle time and replays the steps.
_ANALYSIS = """
import sys, time
from kinetoscope import analyses, findings, reporting
from kinetoscope.findings import worth_device, worth_host
from kinetoscope.ingest import load
if sys.argv[2] == "part":
    analyses.idle = lambda links: None
    replaying = {*worth_host.ALL, *worth_device.ALL}
    findings.FAMILIES = tuple(family for family in findings.FAMILIES if family not in replaying)
    findings.with_savings = lambda facts, found: list(found)
trace = load(sys.argv[1])
begin = time.perf_counter(), time.process_time()
report = reporting.report_of(trace)
end = time.perf_counter(), time.process_time()
assert (report.idle is None) == (sys.argv[2] == "part")
print(*(late - early for early, late in zip(begin, end)), file=sys.stderr)
"""
_PACKAGES = {"orjson.loads": ("orjson", "orjson"), "HolisticTraceAnalysis": ("hta", "HolisticTraceAnalysis")}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    seconds: float
    anonymous_bytes: int | None
    resident_bytes: int | None


class Bench:
    """One session: the file, and what was measured on it."""

    def __init__(self, options: argparse.Namespace, directory: Path) -> None:
        self.repeat: int = options.repeat
        self.directory = directory
        self.rows: list[Row] = []
        self.notes: list[str] = []
        say(f"reading {options.trace}")
        self.source = replicate.read(options.trace)
        self.file = directory / "trace.json"
        self.copies: int = options.copies or replicate.copies_for(self.source, options.size, self.file)
        self.cache = directory / "cache"
        self.report = directory / "report.json"
        self.env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")])),
            "KINETOSCOPE_CACHE": str(self.cache),
        }

    def run(self) -> None:
        """All runs, in turn."""
        self.size = replicate.write(self.source, self.file, self.copies)
        self.events = self.source.events_in(self.copies)
        say(f"{self.size:,} bytes, {self.events:,} events, {self.copies} copies")
        self.kinetoscope("kinetoscope, whole report", self.file, "--no-store")
        self.kinetoscope("kinetoscope, and the store is written", self.file, empty=True)
        self.kinetoscope("kinetoscope, from the store", self.file)
        self.compare()
        shutil.rmtree(self.cache, ignore_errors=True)
        for name in _LOADERS:
            self.loader(name)
        other = self.directory / "other.json"
        replicate.write(self.source, other, self.copies, "line")
        self.kinetoscope("kinetoscope, the file on one line", other, "--no-store")
        _zip(self.file, other)
        self.kinetoscope("kinetoscope, the file as gzip", other, "--no-store")
        replicate.write(self.source, other, self.copies * 2)
        events = self.source.events_in(self.copies * 2)
        self.kinetoscope("kinetoscope, twice the file", other, "--no-store", events=events)

    def kinetoscope(
        self, name: str, file: Path, *more: str, empty: bool = False, events: int | None = None
    ) -> None:
        """Runs of ``kinetoscope report``; ``empty``: each with an empty store."""
        command = [sys.executable, "-m", "kinetoscope", "report", str(file), "--format", "json"]
        runs = []
        for _ in range(self.repeat):
            if empty:
                shutil.rmtree(self.cache, ignore_errors=True)
            runs.append(self._measure(name, [*command, "-o", str(self.report), *more], file))
            found = json.loads(self.report.read_bytes())["trace"]["events"]
            if found != (events or self.events):
                raise SystemExit(f"{name}: {found:,} events were read, {events or self.events:,} written")
        self._add(name, runs)

    def compare(self) -> None:
        """What it costs to explain idle time and to replay the steps: runs with and without, by turns."""
        found: dict[str, list[tuple[float, float]]] = {"whole": [], "part": []}
        for _ in range(max(_TURNS, self.repeat)):
            for name, times in found.items():
                command = [sys.executable, "-c", _ANALYSIS, str(self.file), name]
                done = self._measure(f"analysis of the loaded trace, {name}", command, self.file)
                seconds, processor = map(float, done.stderr.split()[-2:])
                times.append((seconds, processor))
        whole, part = (
            [statistics.median(times) for times in zip(*found[name], strict=True)] for name in found
        )
        self.notes.append(
            f"Analysis of the loaded trace takes {whole[0]:.2f} s. Without explaining idle time and"
            f" replaying the steps it takes {part[0]:.2f} s: the ratio is {whole[0] / part[0]:.2f},"
            f" and that of processor time {whole[1] / part[1]:.2f}"
            f" (medians of {max(_TURNS, self.repeat)} runs by turns)"
        )

    def loader(self, name: str) -> None:
        """Runs of something else that loads the file."""
        label = name
        if name in _PACKAGES:
            module, package = _PACKAGES[name]
            if importlib.util.find_spec(module) is None:
                self.notes.append(f"{name}: not installed")
                return
            label = f"{name} ({importlib.metadata.version(package)})"
        available = _available_memory()
        if available is not None and available < _LOADER_FACTOR * self.size:
            self.notes.append(f"{name}: left out, since {available >> 30} GiB of memory would not be enough")
            return
        command = [sys.executable, "-c", _LOADERS[name], str(self.file)]
        self._add(label, [self._measure(label, command, self.file) for _ in range(self.repeat)])

    def _measure(self, name: str, command: Sequence[str], file: Path) -> measure.Measured:
        _warm(file)
        done = measure.run(command, self.env)
        if done.status != 0:
            raise SystemExit(f"{name}: exit status {done.status}\n{done.stderr[-2000:]}")
        say(f"{name}: {done.seconds:.2f} s, {_bytes(done.anonymous_bytes)}")
        return done

    def _add(self, name: str, runs: Sequence[measure.Measured]) -> None:
        anonymous = [run.anonymous_bytes for run in runs if run.anonymous_bytes is not None]
        resident = [run.resident_bytes for run in runs if run.resident_bytes is not None]
        seconds = statistics.median(run.seconds for run in runs)
        self.rows.append(Row(name, seconds, max(anonymous, default=None), max(resident, default=None)))

    def table(self) -> str:
        """What was measured, as Markdown."""
        base = next((row.seconds for row in self.rows if row.name.startswith("orjson")), None)
        lines = [
            f"{self.size / 1e9:.3g} GB, {self.events:,} events; {machine()}; "
            f"median of {self.repeat} run{'s' if self.repeat > 1 else ''}.",
            "",
            "| | time | of orjson.loads | memory | with pages of files |",
            "|---|---:|---:|---:|---:|",
        ]
        for row in self.rows:
            share = "" if base is None else f"{row.seconds / base:.2f}"
            memory = f"{_bytes(row.anonymous_bytes)} | {_bytes(row.resident_bytes)}"
            lines.append(f"| {row.name} | {row.seconds:.2f} s | {share} | {memory} |")
        whole = self.rows[0].seconds
        ratios = [
            f"{row.name.removeprefix('kinetoscope, ')}: {row.seconds / whole:.2f}"
            for row in self.rows[1:]
            if row.name.startswith("kinetoscope")
        ]
        lines += ["", f"Time over that of the first line: {'; '.join(ratios)}."]
        lines += [f"\n{note}." for note in self.notes]
        return "\n".join(lines) + "\n"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def machine() -> str:
    """Processor, cores, memory, Python."""
    model = platform.processor() or platform.machine()
    try:
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        model = found.group(1) if found else model
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores; Python {platform.python_version()}"


def _available_memory() -> int | None:
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found.group(1)) * 1024 if found else None


def _bytes(size: int | None) -> str:
    return "unknown" if size is None else f"{size / 1e9:.2f} GB"


def _warm(file: Path) -> None:
    with open(file, "rb") as data:
        while data.read(16 << 20):
            pass


def _zip(source: Path, target: Path) -> None:
    with open(source, "rb") as plain, gzip.open(target, "wb", compresslevel=5) as packed:
        shutil.copyfileobj(plain, packed, 16 << 20)


def put(table: str, page: Path, marks: tuple[str, str] = _MARKS) -> None:
    """Write the table into a page, between its marks where it has them."""
    text = page.read_text(encoding="utf-8") if page.exists() else "".join(marks)
    before, rest = text.split(marks[0])
    page.write_text(f"{before}{marks[0]}\n{table}\n{marks[1]}{rest.split(marks[1])[1]}", encoding="utf-8")


def options_of(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add: Any = parser.add_argument
    add("trace", type=Path, nargs="?", default=SAMPLE, help="what to repeat (default: the sample)")
    add("--size", type=replicate.size_of, default=1_140_000_000, help="of the file, about (default: 1.14GB)")
    add("--copies", type=int, help="instead of --size")
    add("--repeat", type=int, default=1, help="runs of each kind; the median counts (default: 1)")
    add("--quick", action="store_true", help=f"a file of {QUICK_BYTES / 1e6:.0f} MB")
    add("--table", type=Path, help="also write the table into this page")
    add("--directory", type=Path, help="where to work (default: the system's temporary directory)")
    options = parser.parse_args(argv)
    if options.quick:
        options.size = QUICK_BYTES
    return options


def main(argv: Sequence[str]) -> int:
    options = options_of(argv)
    with tempfile.TemporaryDirectory(prefix="kinetoscope-bench-", dir=options.directory) as name:
        free = shutil.disk_usage(name).free
        bench = Bench(options, Path(name))
        if options.copies is None and free < 4 * options.size:
            raise SystemExit(f"{free / 1e9:.0f} GB free in {name}: not enough; see --directory and --size")
        bench.run()
    table = bench.table()
    print(table)
    if options.table is not None:
        put(table, options.table)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (KeyboardInterrupt, subprocess.TimeoutExpired) as error:
        sys.exit(f"stopped: {type(error).__name__}")
