"""Damaged compile logs: whole records are read, and nothing else is raised than InputError."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinetoscope.analyses.log_breaks import log_breaks
from kinetoscope.analyses.log_compile_time import log_compile_time
from kinetoscope.analyses.log_recompiles import log_recompiles
from kinetoscope.errors import InputError
from kinetoscope.ingest.compile_log import CompileLog, read_compile_log
from kinetoscope.ingest.log_records import ReadState, _gunzip, iter_records
from kinetoscope.link.provenance import Provenance
from kinetoscope.render import as_json
from kinetoscope.render.as_text import render
from kinetoscope.reporting import analyse

LOGS = Path(__file__).parent / "traces" / "logs"
LOOP = gzip.decompress((LOGS / "gb_loop.log.gz").read_bytes())
TRAIN = gzip.decompress((LOGS / "train.log.gz").read_bytes())


def use(log: CompileLog) -> None:
    log_breaks(log)
    log_recompiles(log)
    log_compile_time(log)
    lines = Provenance(log)
    for item in log.compilations:
        for graph in item.graphs:
            lines.calls(graph)
            lines.kernels(graph)


def whole_records(data: bytes) -> int:
    """How many headers the bytes hold, the last one's record perhaps cut."""
    lines = data.split(b"\n")
    return sum(1 for line in lines if line and not line.startswith(b"\t"))


def test_a_log_cut_at_any_byte_is_read_to_its_last_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "cut.log"
    for cut in range(0, len(LOOP), 97):
        path.write_bytes(LOOP[:cut])
        expected = whole_records(LOOP[:cut])
        try:
            log = read_compile_log(path)
        except InputError:
            assert expected <= 1, cut
            continue
        read = sum(log.counts.values())
        truncated = any(w.code == "log-truncated" for w in log.warnings)
        if LOOP[cut - 1 : cut] == b"\n":
            assert read in (expected, expected - 1), cut
        else:
            assert read == expected - 1, cut
            assert truncated, cut
        assert not any(w.code == "log-malformed" for w in log.warnings), cut
        use(log)


def test_a_record_whose_payload_is_missing_is_not_whole(tmp_path: Path) -> None:
    end = LOOP.index(b"\n", LOOP.rindex(b'"has_payload"')) + 1
    path = tmp_path / "cut.log"
    path.write_bytes(LOOP[:end])
    log = read_compile_log(path)
    assert [w.code for w in log.warnings] == ["log-truncated"]
    assert "last whole record" in log.warnings[0].message


def test_a_gzip_cut_short_gives_what_it_holds(tmp_path: Path) -> None:
    packed = gzip.compress(TRAIN)
    path = tmp_path / "cut.log.gz"
    for share in (0.3, 0.6, 0.9):
        path.write_bytes(packed[: int(len(packed) * share)])
        log = read_compile_log(path)
        assert any(w.code == "log-truncated" for w in log.warnings)
        assert sum(log.counts.values()) > 10
        use(log)


def test_several_gzip_members_are_one_log(tmp_path: Path) -> None:
    path = tmp_path / "members.log"
    third = len(TRAIN) // 3
    path.write_bytes(b"".join(gzip.compress(TRAIN[i : i + third]) for i in range(0, len(TRAIN), third)))
    plain = tmp_path / "plain.log"
    plain.write_bytes(TRAIN)
    assert read_compile_log(path).counts == read_compile_log(plain).counts


@pytest.mark.parametrize("seed", range(8))
def test_scattered_damage_loses_only_what_it_hits(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    data = bytearray(TRAIN)
    for _ in range(40):
        place = source.randrange(len(data))
        data[place : place + source.randrange(1, 30)] = source.choice(
            [b"\x00" * 9, b"\xff\xfe", b"\n", b"\t", b"{", bytes(source.randrange(256) for _ in range(20))]
        )
    path = tmp_path / "damaged.log"
    path.write_bytes(bytes(data))
    log = read_compile_log(path)
    assert sum(log.counts.values()) > 30
    use(log)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk=st.binary(max_size=400), at=st.integers(0, len(LOOP)))
def test_any_bytes_anywhere(tmp_path: Path, junk: bytes, at: int) -> None:
    path = tmp_path / "junk.log"
    for data in (junk, LOOP[:at] + junk, LOOP[:at] + junk + LOOP[at:], b"\x1f\x8b" + junk):
        path.write_bytes(data)
        try:
            use(read_compile_log(path))
        except InputError:
            continue


def test_a_header_with_odd_values_is_survived(tmp_path: Path) -> None:
    prefix = "V0102 03:04:05.000000 77 torch/x.py:1] "
    lines = [
        '{"dynamo_start": {"stack": [{"line": 1}]}, "frame_id": 0, "frame_compile_id": 0}',
        '{"dynamo_start": 5, "frame_id": 0, "frame_compile_id": 0}',
        '{"dynamo_start": null, "frame_id": 0, "frame_compile_id": 0}',
        '{"artifact": {"name": 7}, "frame_id": 0, "frame_compile_id": 0}',
        '{"artifact": null}',
        '{"str": 3}',
        '{"str": ["a"]}',
        '{"compilation_metrics": {"start_time_us": "x", "graph_op_count": NaN, "restart_reasons": null}, '
        '"frame_id": 0, "frame_compile_id": 0}',
        '{"compilation_metrics": [1, 2], "frame_id": "a", "frame_compile_id": {"b": 1}}',
        '{"rank": "zero", "chromium_event": {}, "has_payload": "q"}',
        '{"frame_id": 1}',
        "[1, 2]",
    ]
    path = tmp_path / "odd.log"
    path.write_text("".join(f"{prefix}{line}\n" for line in lines) + "\tno event\n")
    log = read_compile_log(path)
    use(log)
    assert {w.code for w in log.warnings} >= {"log-malformed", "log-record-unread"}


def test_a_payload_too_long_to_hold_is_left_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kinetoscope.ingest.log_records._MAX_IN_MEMORY", 1000)
    monkeypatch.setattr("kinetoscope.ingest.log_records._BLOCK", 256)
    path = tmp_path / "long.log"
    prefix = "V0102 03:04:05.000000 77 torch/x.py:1] "
    long = "".join(f"\tline {i:06d}\n" for i in range(2000))
    head = (
        '{"inductor_output_code": {"file_path": "a.py"}, "frame_id": 0, "frame_compile_id": 0, '
        '"has_payload": "1"}'
    )
    path.write_text(f'{prefix}{{"str": ["a.py", 0]}}\n{prefix}{head}\n{long}{prefix}{{"str": ["b.py", 1]}}\n')
    state = ReadState()
    records = list(iter_records(path, state))
    assert [r.kind for r in records] == ["str", "inductor_output_code", "str"]
    assert (state.malformed, state.truncated) == (0, None)
    middle = records[1]
    assert middle.payload is None
    assert middle.place is not None
    assert middle.place.length == len(long)
    text = middle.place.text().split("\n")
    assert (text[0], text[-1], len(text)) == ("line 000000", "line 001999", 2000)


def test_inflating_never_holds_more_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinetoscope.ingest.log_records._BLOCK", 4096)
    path = tmp_path / "dense.gz"
    path.write_bytes(gzip.compress(b"\n" * 1_000_000))
    with path.open("rb") as file:
        sizes = [len(chunk) for chunk in _gunzip(file)]
    assert sum(sizes) == 1_000_000
    assert max(sizes) <= 4096


ODD: tuple[Any, ...] = (
    None, 0, -1, True, 1e300, float("nan"), float("inf"), 2**70, -(2**63), "", "x", "0/0", "\u00b2",
    [], {}, [[]], {"a": 1}, [1, "a", None],
)  # fmt: skip


def altered(value: Any, source: random.Random, share: float) -> Any:
    """A JSON value in which some values are of another type or size, and some keys are gone."""
    if source.random() < share:
        return source.choice(ODD)
    if isinstance(value, dict):
        return {k: altered(v, source, share) for k, v in value.items() if source.random() > share / 3}
    return [altered(v, source, share) for v in value] if isinstance(value, list) else value


def altered_record(record: list[bytes], source: random.Random, share: float) -> list[bytes]:
    """A record whose header, and whose payload where it is JSON, has other values; still well formed."""
    prefix, _, header = record[0].partition(b"] {")
    changed = json.dumps(altered(json.loads(b"{" + header), source, share)).encode()
    try:
        payload = json.loads(b"\n".join(line[1:] for line in record[1:]))
    except ValueError:
        return [prefix + b"] " + changed, *record[1:]]
    text = json.dumps(altered(payload, source, share), indent=1).encode()
    return [prefix + b"] " + changed, *(b"\t" + line for line in text.split(b"\n"))]


def records_of(data: bytes) -> list[list[bytes]]:
    found: list[list[bytes]] = []
    for line in data.rstrip(b"\n").split(b"\n"):
        if line.startswith(b"\t"):
            found[-1].append(line)
        else:
            found.append([line])
    return found


@pytest.mark.parametrize("share", [0.003, 0.02, 0.1])
@pytest.mark.parametrize("name", ["gb_nested", "recompile_limit", "compiled_autograd", "seed_breaks"])
def test_well_formed_records_with_values_that_no_version_writes(
    name: str, share: float, tmp_path: Path
) -> None:
    """The whole report, since what a record says is used far from where it is read."""
    traces = LOGS.parent
    trace = traces / ("seed_breaks.trace.json.gz" if name == "seed_breaks" else f"warm/{name}.json.gz")
    records = records_of(gzip.decompress((LOGS / f"{name}.log.gz").read_bytes()))
    path = tmp_path / "odd.log"
    for seed in range(3 if name == "seed_breaks" else 8):
        source = random.Random(seed)
        odd = [altered_record(record, source, share) for record in records]
        if seed % 2:
            source.shuffle(odd)
        path.write_bytes(b"".join(b"\n".join(record) + b"\n" for record in odd))
        report = analyse([str(trace)], compile_log=str(path), use_store=False)
        as_json.render(report)
        render(report, width=100, color=False)


def test_a_number_that_is_none_is_left_out(tmp_path: Path) -> None:
    """NaN and numbers beyond any count are not read, and nothing else of their records is lost."""
    records = records_of(LOOP)
    (number,) = [n for n, record in enumerate(records) if b'{"compilation_metrics"' in record[0]]
    prefix, _, header = records[number][0].partition(b"] {")
    body = json.loads(b"{" + header)
    body["compilation_metrics"] |= {"guard_count": 2**70, "start_time": float("nan"), "restart_reasons": 7}
    records[number][0] = prefix + b"] " + json.dumps(body).encode()
    path = tmp_path / "odd.log"
    path.write_bytes(b"".join(b"\n".join(record) + b"\n" for record in records))
    (item,) = read_compile_log(path).compilations
    assert (item.guards, item.restart_reasons, item.produced_code) == (None, (), False)
