"""An export is the trace it was made from, to the last digit, with what was found beside it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kinetoscope.__main__ import main
from kinetoscope.errors import InputError
from kinetoscope.export.chrome import chrome, gzipped
from kinetoscope.export.part import part, whole
from kinetoscope.ingest import load
from kinetoscope.ingest.capture_directory import LogShelf, find_inputs
from kinetoscope.link import Links
from kinetoscope.reporting import report_and_facts, report_of
from kinetoscope.trace import Trace

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "tests" / "traces"
SAMPLE = ROOT / "samples" / "graph_breaks"
NAMES = sorted(path.name.removesuffix(".trace.json.gz") for path in TRACES.glob("*.trace.json.gz"))


def exported(path: Path, out: Path, *, intervals: list[tuple[int, int]] | None = None) -> Trace:
    """Write an export; the trace it was made from."""
    trace = load(path, use_store=False)
    links = Links(trace)
    report, facts = report_and_facts(links)
    chosen = whole(trace) if intervals is None else part(links, intervals)
    out.write_bytes(b"".join(chrome(facts, report, chosen)))
    return trace


def events(path: Path) -> list[dict[str, Any]]:
    """The events of a file, numbers as they are written."""
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    document = json.loads(data, parse_float=Decimal)
    return document["traceEvents"] if isinstance(document, dict) else document  # type: ignore[no-any-return]


@pytest.fixture(scope="module", params=NAMES)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A capture, and its export."""
    path = TRACES / f"{request.param}.trace.json.gz"
    out = tmp_path_factory.mktemp("export") / "out.json"
    exported(path, out)
    return path, out


def test_the_file_s_own_events_are_as_they_were(both: tuple[Path, Path]) -> None:
    before, after = map(events, both)
    ours = [event for event in after if event.get("cat") == "kinetoscope"]
    added = {event["pid"] for event in ours}
    rest = [event for event in after if event["pid"] not in added]
    for event in rest:
        if isinstance(event.get("args"), dict):
            event["args"].pop("kinetoscope", None)
    assert rest == before
    assert len(added) == 1


def test_the_reference_numbers_are_read_from_the_export(both: tuple[Path, Path]) -> None:
    path, out = both
    known = json.loads((path.parent / path.name.replace(".trace.json.gz", ".reference.json")).read_text())
    report = report_of(load(out, use_store=False))
    told = [
        (entry.device, entry.events, entry.span_ns, entry.busy_ns, entry.gaps) for entry in report.device_time
    ]
    assert told == [
        (entry["device"], entry["events"], entry["span_ns"], entry["busy_ns"], entry["gaps"])
        for entry in known["device_time"]
    ]
    assert (
        sum(each.count for each in report.kernels.by_origin if each.origin != "memory")
        == (  # type: ignore[union-attr]
            known["kernels"]
        )
    )
    assert {region.id: (region.calls, region.total_ns, region.device_ns) for region in report.regions} == {
        name: (entry["calls"], entry["total_ns"], entry["device_ns"])
        for name, entry in known["regions"].items()
    }


def test_the_report_of_an_export_is_that_of_the_trace(both: tuple[Path, Path]) -> None:
    def told(path: Path) -> Any:
        found = msgspec.to_builtins(report_of(load(path, use_store=False)))
        for name in ("path", "events", "complete_events"):
            del found["trace"][name]
        return found

    assert told(both[1]) == told(both[0])


def test_tracks_say_what_the_report_says(both: tuple[Path, Path]) -> None:
    report = report_of(load(both[0], use_store=False))
    after = events(both[1])
    pid = next(event["pid"] for event in after if event.get("args", {}).get("name") == "kinetoscope")
    tracks = {
        event["tid"]: event["args"]["name"]
        for event in after
        if event["pid"] == pid and event["name"] == "thread_name"
    }
    ours = [event for event in after if event["pid"] == pid and event["ph"] != "M"]
    by_track = Counter(tracks[event["tid"]] for event in ours)
    assert by_track["Steps"] == len(report.steps.list)
    spans = [event for event in ours if tracks[event["tid"]] == "Steps"]
    assert [int(event["dur"] * 1000) for event in spans] == [step.dur_ns for step in report.steps.list]
    if report.idle is not None:
        idle: Counter[str] = Counter()
        for event in ours:
            if tracks[event["tid"]].startswith("Idle, "):
                idle[event["args"]["cause"]] += int(event["dur"] * 1000)
        assert dict(idle) == {each.cause: each.total_ns for each in report.idle.by_cause}
    regions = sum(count for name, count in by_track.items() if name.startswith("Compiled regions"))
    assert regions == sum(region.calls for region in report.regions)
    assert by_track["Graph breaks"] == sum(region.nested_calls for region in report.regions)


def test_kernels_say_what_they_are(both: tuple[Path, Path]) -> None:
    report = report_of(load(both[0], use_store=False))
    if report.kernels is None or not report.device_time:
        pytest.skip("no device in this capture")
    found: Counter[str] = Counter()
    for event in events(both[1]):
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            found[event["args"]["kinetoscope"]["origin"]] += 1
    assert found == Counter({each.origin: each.count for each in report.kernels.by_origin})


def test_a_log_adds_breaks_and_source_lines(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert main(["export", str(SAMPLE), "-o", str(out)]) == 0
    found = events(out)
    breaks = [event for event in found if event["ph"] == "i" and event["name"].startswith("graph break")]
    (item,) = find_inputs([str(SAMPLE)])
    trace = load(SAMPLE / "trace.json.gz")
    log, _ = LogShelf().log_for(item, trace)
    report = report_of(trace, log=log, capture=item.capture)
    sites = {(site.file, site.line) for site in report.graph_breaks.sites if site.kind == "break"}
    assert {(event["args"]["file"], event["args"]["line"]) for event in breaks} == sites
    assert all(event["args"]["reason"] for event in breaks)
    lines = {
        line
        for event in found
        if event.get("cat") == "kernel"
        for line in event["args"]["kinetoscope"].get("source", ())
    }
    told = {f"{s.file}:{s.line} in {s.function}" for k in report.kernels.top for s in k.source}  # type: ignore[union-attr]
    assert lines == told != set()


def test_exporting_an_export_adds_nothing_twice(tmp_path: Path) -> None:
    once, twice = tmp_path / "once.json", tmp_path / "twice.json"
    exported(TRACES / "seed_breaks.trace.json.gz", once)
    exported(once, twice)

    def counted(path: Path) -> Counter[str]:
        return Counter(str(event.get("cat")) for event in events(path))

    assert counted(twice)["kinetoscope"] == counted(once)["kinetoscope"]


def test_a_window_holds_what_began_in_it_and_the_work_it_launched(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    path = TRACES / "seed_breaks.trace.json.gz"
    begin, end = 9_758_298, 13_298_521
    trace = exported(path, out, intervals=[(begin, end)])

    def inside(event: dict[str, Any]) -> bool:
        return begin <= int(event["ts"] * 1000) - trace.origin_ns < end

    launches = {"cuda_runtime", "cuda_driver"}
    before = [event for event in events(path) if event["ph"] == "X"]
    launched = {
        event["args"].get("correlation") for event in before if event["cat"] in launches and inside(event)
    }
    recorded = {event["args"].get("correlation") for event in before if event["cat"] in launches}
    wanted = []
    for event in before:
        correlation = event.get("args", {}).get("correlation")
        is_device = event["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")
        by_launch = is_device and correlation in recorded
        if correlation in launched if by_launch else inside(event):
            wanted.append((event["name"], event["ts"]))
    found = [
        (event["name"], event["ts"])
        for event in events(out)
        if event["ph"] == "X" and event["cat"] != "kinetoscope"
    ]
    assert found == wanted
    assert {event["name"] for event in events(out) if event["ph"] == "M"} >= {"process_name", "thread_name"}


HOSTILE = [
    'quote " backslash \\ </script><img src=x>',
    "line\nbreak\ttab \x00 zero",
    "snow \u2603, half \ud83d alone",
    "\u202eright to left",
]


def test_names_are_written_so_that_they_are_read_again(tmp_path: Path) -> None:
    path, out = tmp_path / "in.json", tmp_path / "out.json"
    given: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": HOSTILE[0]}}
    ]
    for number, name in enumerate(HOSTILE):
        base = {"ph": "X", "pid": 1, "tid": 1}
        start = 1000 + 100 * number
        given += [
            {**base, "cat": "cpu_op", "name": f"Torch-Compiled Region: {name}", "ts": start, "dur": 50},
            {**base, "cat": "cpu_op", "name": name, "ts": start + 1, "dur": 40},
            {
                **base,
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "ts": start + 2,
                "dur": 5,
                "args": {"correlation": number + 1},
            },
            {
                "ph": "X",
                "pid": 0,
                "tid": 7,
                "cat": "kernel",
                "name": name,
                "ts": start + 20,
                "dur": 5,
                "args": {"correlation": number + 1, "device": 0, "stream": 7, "kinetoscope": "theirs"},
            },
        ]
    path.write_text(json.dumps({"traceEvents": given}))
    exported(path, out)
    found = events(out)
    ours = [event for event in found if event.get("cat") == "kinetoscope"]
    assert len(ours) >= len(HOSTILE)
    kernels = [event for event in found if event.get("cat") == "kernel"]
    # half a surrogate pair is no character, and reading replaces it
    assert [event["name"] for event in kernels] == [name.replace("\ud83d", "\ufffd") for name in HOSTILE]
    assert all(event["args"]["kinetoscope"]["origin"] for event in kernels)
    assert all(event["args"]["correlation"] for event in kernels)


def test_times_before_zero_and_of_17_digits(tmp_path: Path) -> None:
    path, out = tmp_path / "in.json", tmp_path / "out.json"
    times = ["17646512345678.901", "17646512345678.902"]
    body = ",".join(
        f'{{"ph":"X","cat":"cpu_op","name":"a{n}","pid":1,"tid":1,"ts":{ts},"dur":0.001}}'
        for n, ts in enumerate(times)
    )
    path.write_text(f'{{"traceEvents":[{body}]}}')
    exported(path, out)
    assert all(f'"ts":{ts}' in out.read_text() for ts in times)


def test_broken_events_are_written_whole(tmp_path: Path) -> None:
    path, out = tmp_path / "in.json", tmp_path / "out.json"
    good = '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":2}'
    nan = '{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":5,"dur":2,"args":{"x":NaN}}'
    path.write_text(f'{{"traceEvents":[{good},{nan},{good}')
    exported(path, out)
    assert [event["name"] for event in events(out) if event.get("cat") == "cpu_op"] == ["a", "b", "a"]


def test_packed_pieces_are_one_gzip_file() -> None:
    pieces: Iterator[bytes] = iter([b"first ", b"", b"second" * 100_000])
    packed = b"".join(gzipped(pieces))
    assert zlib.decompress(packed, 31) == b"first " + b"second" * 100_000


_MEMORY = """
import resource, sys
from kinetoscope.export.chrome import chrome, gzipped
from kinetoscope.export.part import whole
from kinetoscope.ingest import load
from kinetoscope.link import Links
from kinetoscope.reporting import report_and_facts
trace = load(sys.argv[1], use_store=False)
report, facts = report_and_facts(Links(trace))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
size = sum(map(len, chrome(facts, report, whole(trace))))
print(size, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    filling = "x" * 400
    with path.open("w") as file:
        file.write('{"traceEvents":[\n')
        for number in range(150_000):
            comma = "," if number else ""
            file.write(
                f'{comma}{{"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":1,"ts":{number},"dur":0.5,'
                f'"args":{{"filling":"{filling}"}}}}\n'
            )
        file.write("]}")
    done = subprocess.run(
        [sys.executable, "-c", _MEMORY, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / "src")},
    )
    size, grown = map(int, done.stdout.split())
    assert size > 70_000_000
    assert grown < size / 2


def test_a_rank_from_a_file_s_name_is_kept(tmp_path: Path) -> None:
    path, out = tmp_path / "rank3.json", tmp_path / "out.json"
    path.write_text('{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":2}]}')
    exported(path, out)
    assert load(out, use_store=False).info.rank == 3


def test_a_file_that_has_gone_is_said(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.decompress((TRACES / "seed_breaks.trace.json.gz").read_bytes()))
    trace = load(path, use_store=False)
    report, facts = report_and_facts(Links(trace))
    path.unlink()
    with pytest.raises(InputError, match=r"cannot read .*trace\.json"):
        list(chrome(facts, report, whole(trace)))
