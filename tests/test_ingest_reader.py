"""Reading: what comes out equals a plain reading of the same JSON, wherever the text is cut."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinetoscope.errors import EmptyTraceError, KinetoscopeError, NotATraceError
from kinetoscope.ingest import load, reader
from kinetoscope.ingest.reader import ExtentArgs, Reading, read_document
from kinetoscope.ingest.text import FileText, StreamText
from kinetoscope.trace import Trace


def read(data: bytes, chunk: int | None = None, monkeypatch: pytest.MonkeyPatch | None = None) -> Reading:
    blocks = [data[i : i + 977] for i in range(0, len(data), 977)]
    with pytest.MonkeyPatch.context() as patch:
        if chunk is not None:
            patch.setattr(reader, "CHUNK_BYTES", chunk)
            patch.setattr(reader, "_WINDOW_BYTES", max(64, chunk // 2))
        with closing(StreamText(lambda: iter(blocks))) as text:
            return read_document(text)


def load_bytes(data: bytes, where: Path) -> Trace:
    where.write_bytes(data)
    return load(str(where), use_store=False)


def rows(reading: Reading) -> list[tuple[Any, ...]]:
    """Slices in file order, times absolute."""
    body = reading.body
    s = body.slices
    found = [
        (
            int(s.event[i]),
            body.names[int(s.name[i])],
            body.cats[int(s.cat[i])],
            int(s.start_ns[i]) + body.origin_ns,
            int(s.dur_ns[i]),
            (body.tracks[int(s.track[i])].pid, body.tracks[int(s.track[i])].tid),
        )
        for i in range(len(s))
    ]
    return sorted(found)


def plain(document: bytes) -> list[tuple[Any, ...]]:
    """The same from the standard library's parser and decimals."""
    value = json.loads(document, parse_float=Decimal)
    events = value["traceEvents"] if isinstance(value, dict) else value
    return [
        (
            number,
            e.get("name", ""),
            e.get("cat", ""),
            int((Decimal(e["ts"]) * 1000).to_integral_value()),
            int((Decimal(e.get("dur", 0)) * 1000).to_integral_value()),
            (e.get("pid", ""), e.get("tid", "")),
        )
        for number, e in enumerate(events)
        if e.get("ph") == "X"
    ]


texts = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ['}, {"ph": "X", "name": "', "},{", '"', "\\", '"}],"traceEvents":[{"ph":"X"', "]}", "\n  },\n  {\n"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
#: microseconds with three digits behind the point, as Kineto writes them
times = st.integers(0, 2**42 * 1000).map(lambda ns: Decimal(ns) / 1000)
epochs = st.integers(16 * 10**17, 18 * 10**17).map(lambda ns: Decimal(ns) / 1000)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    ts = draw(st.sampled_from([times, epochs]))
    events = []
    for _ in range(draw(st.integers(1, 25))):
        event: dict[str, Any] = {
            "ph": "X",
            "name": draw(texts),
            # no kernels: one that runs into the next on its stream is cut, which is a rule of its own
            "cat": draw(st.sampled_from(["cpu_op", "cuda_runtime", "user_annotation"])),
            "pid": draw(st.integers(0, 3) | st.sampled_from(["Spans", "0"])),
            "tid": draw(st.integers(0, 2**40)),
            "ts": draw(ts),
            "dur": draw(times),
        }
        if draw(st.booleans()):
            event["args"] = draw(st.dictionaries(texts, values, max_size=3))
        if draw(st.booleans()):
            event = {"name": "flow", "ph": "s", "id": 7, "pid": 0, "tid": 0, "ts": draw(ts), "cat": "ac2g"}
        events.append(event)
    events.append({"ph": "X", "name": "last", "cat": "cpu_op", "pid": 0, "tid": 0, "ts": draw(ts)})
    whole: Any = {
        "schemaVersion": 1,
        draw(texts): draw(values),
        "traceEvents": events,
        "traceName": draw(texts),
    }
    if draw(st.booleans()):
        whole = events
    style: dict[str, Any] = draw(
        st.sampled_from(
            [{"indent": 2}, {"separators": (",", ":")}, {}, {"sort_keys": True}, {"ensure_ascii": False}]
        )
    )
    # numbers keep every digit: decimals go through a marker
    marked = json.dumps(whole, default=lambda d: f"@@{d}@@", **style)
    import re

    return re.sub(r'"@@([0-9.Ee+-]+)@@"', r"\1", marked).encode()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents(), st.sampled_from([None, 64, 200, 700]))
def test_reads_what_a_plain_parser_reads(document: bytes, chunk: int | None) -> None:
    reading = read(document, chunk)
    assert reading.complete
    assert reading.body.events == len(events_of(document))
    assert rows(reading) == plain(document)


def events_of(document: bytes) -> list[dict[str, Any]]:
    value = json.loads(document)
    found: list[dict[str, Any]] = value["traceEvents"] if isinstance(value, dict) else value
    return found


@settings(max_examples=40, deadline=None)
@given(documents())
def test_raw_events_are_read_again(document: bytes) -> None:
    reading = read(document, 200)
    source = ExtentArgs(lambda: StreamText(lambda: iter([document])), reading.extents)
    events = events_of(document)
    order = list(range(len(events)))
    random.Random(0).shuffle(order)
    assert source(order) == [events[i] for i in order]


CASE = json.dumps(
    {
        "schemaVersion": 1,
        "traceEvents": [
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": f"aten::op{i}",
                "pid": 1,
                "tid": 1,
                "ts": 10.5 * i,
                "dur": 3,
                "args": {"External id": i, "list": [{"name": "a"}, {"name": "b"}]},
            }
            for i in range(12)
        ],
        "traceName": "x",
    },
    indent=1,
).encode()


@pytest.mark.parametrize("chunk", [None, 100])
def test_truncated_at_any_byte(chunk: int | None) -> None:
    whole = plain(CASE)
    end = CASE.rindex(b"]")
    ends, at = [], CASE.index(b"[", CASE.index(b"traceEvents")) + 1
    for _ in whole:
        at = json.JSONDecoder().raw_decode(CASE.decode(), CASE.index(b"{", at))[1]
        ends.append(at)
    seen = set()
    for cut in range(len(CASE)):
        try:
            reading = read(CASE[:cut], chunk)
        except (EmptyTraceError, NotATraceError):
            assert b'"name": "aten::op1"' not in CASE[:cut]
            continue
        got = rows(reading)
        seen.add(len(got))
        # every event that is whole before the cut, and nothing else
        assert got == whole[: len(got)]
        assert len(got) == sum(end <= cut for end in ends)
        assert not reading.complete, cut
        assert not any(code.startswith("repaired") or code == "event-lost" for code in reading.notes), cut
        assert cut > end or reading.header.get("traceName") is None
    assert seen == set(range(1, 13))


def test_a_gzip_cut_anywhere_is_partial_or_refused(tmp_path: Path) -> None:
    big = {"traceEvents": [{**events_of(CASE)[i % 12], "ts": i, "name": str(i * 7919)} for i in range(3000)]}
    packed = gzip.compress(json.dumps(big).encode())
    for cut in [0, 1, 5, 10, 11, 40, 300, *range(500, len(packed), 3001), len(packed) - 9, len(packed) - 1]:
        path = tmp_path / "t.json.gz"
        try:
            trace = load_bytes(packed[:cut], path)
        except KinetoscopeError as error:
            assert str(path) in str(error)
            assert "\n" not in str(error)
            continue
        assert not trace.info.complete
        assert trace.warnings[0].code == "truncated"


@pytest.mark.parametrize(
    ("ts", "ns"),
    [
        ("5114195099881.011", 5114195099881011),
        ("1694128201441165", 1694128201441165000),
        ("1694128201441165.123", 1694128201441165123),
        ('"1747000000001000.250"', 1747000000001000250),
        ("1.5e3", 1500000),
        ("0.0005", 0),  # half a nanosecond: to even
        ("0.0015", 2),
        ("8796093022208.001", 8796093022208001),
        ("8796093022209.999", 8796093022209999),
        ("-999850.125", -999850125),
    ],
)
def test_every_form_of_a_timestamp(ts: str, ns: int) -> None:
    """As a start, and as a duration where it is one: nothing lasts for decades."""
    is_duration = 0 <= ns < 10**17
    dur = ts if is_duration else "1"
    document = f'[{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}]'
    reading = read(document.encode())
    assert reading.body.origin_ns == ns
    assert int(reading.body.slices.dur_ns[0]) == (ns if is_duration else 1000)


def test_one_time_that_needs_decimals_does_not_change_the_others() -> None:
    stamps = ["1694128201441160", "1694128201441165.5", "1694128201441165", '"1694128201441168.001"']
    events = ",".join('{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":%s}' % ts for ts in stamps)
    reading = read(f"[{events}]".encode())
    assert [row[3] for row in rows(reading)] == [
        1694128201441160000,
        1694128201441165500,
        1694128201441165000,
        1694128201441168001,
    ]


def test_a_broken_event_is_lost_alone() -> None:
    good = '{"ph":"X","cat":"cpu_op","name":"n%d","pid":1,"tid":1,"ts":%d,"dur":1}'
    events = [good % (i, i) for i in range(200)]
    events[50] = '{"ph":"X","cat":"cpu_op","name":"n50","pid":1,"tid":1,"ts":50,"dur":::}'
    events[120] = '{"ph":"X","cat":"cpu_op","name":"say "hi", or not","pid":1,"tid":1,"ts":120,"dur":1}'
    events[121] = '{"ph":"X","cat":"cpu_op","name":"C:\\dir\\xyz","pid":1,"tid":1,"ts":121,"dur":nan}'
    document = ("[" + ",\n".join(events) + "]").encode()
    for chunk in (None, 300):
        reading = read(document, chunk)
        names = [row[1] for row in rows(reading)]
        assert len(names) == 199
        assert names[119:121] == ['say "hi", or not', "C:\\dir\\xyz"]
        assert reading.notes["event-lost"] == 1
        assert reading.notes["repaired-quotes"] == 1
        assert reading.notes["repaired-escape"] == 2
        assert reading.complete
        source = ExtentArgs(lambda: StreamText(lambda: iter([document])), reading.extents)
        assert source([119, 120, 198])[0]["name"] == 'say "hi", or not'
        assert source([120])[0]["dur"] is None
        assert source([198])[0]["name"] == "n199"


def mutations(data: bytes, count: int) -> Iterator[bytes]:
    rng = random.Random(20)
    for _ in range(count):
        mutated = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(mutated))
            what = rng.randrange(3)
            if what == 0:
                mutated[at] = rng.randrange(256)
            elif what == 1:
                del mutated[at : at + rng.randint(1, 30)]
            else:
                mutated[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 6)))
        yield bytes(mutated)


def test_mutated_files_never_crash(tmp_path: Path) -> None:
    survived = 0
    for number, data in enumerate(mutations(CASE, 400)):
        try:
            trace = load_bytes(data, tmp_path / "m.json")
        except KinetoscopeError as error:
            assert "\n" not in str(error)
            continue
        survived += 1
        assert trace.info.events <= 12 + 4, number
    assert survived > 300


def test_plain_file_and_stream_agree(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(CASE)
    with closing(FileText(path)) as text:
        assert rows(read_document(text)) == rows(read(CASE)) == plain(CASE)


@pytest.mark.parametrize("last", ["17471234567890999", "17471234567890999.0", '"17471234567890999"'])
def test_times_of_17_digits_keep_their_distances(last: str) -> None:
    """Such times are beyond int64 nanoseconds; what counts from the first event is not."""
    first = '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":17471234567890123,"dur":2}'
    reading = read(f'[{first},{{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":{last}}}]'.encode())
    assert reading.body.slices.start_ns.tolist() == [0, 876_000]


ABSURD = [
    ('"ts":1e17', 0),
    ('"ts":1e30', 0),
    ('"ts":9.2e15,"dur":3', 1),
    ('"ts":12,"dur":18446744073709551615', 1),
    ('"ts":12,"dur":9.2e15', 1),
    ('"ts":12,"dur":"1,000"', 1),
    ('"ts":12,"dur":null', 1),
    ('"ts":12,"dur":-1', 1),
]


@pytest.mark.parametrize(("times", "kept"), ABSURD)
def test_times_that_cannot_be_are_counted_and_change_nothing_else(
    tmp_path: Path, times: str, kept: int
) -> None:
    good = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":10,"dur":5}'
    more = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":20,"dur":5}'
    bad = f'{{"ph":"X","cat":"kernel","name":"x","pid":0,"tid":7,{times}}}'
    trace = load_bytes(f"[{good},{bad},{more}]".encode(), tmp_path / "t.json")
    assert len(trace.columns) == 2 + kept
    assert sum(warning.count for warning in trace.warnings) >= 1
    valid = trace.columns.is_valid
    assert trace.columns.start_ns[valid].tolist() == [0, 10_000]
    assert trace.columns.dur_ns[valid].tolist() == [5_000, 5_000]
    assert trace.span_ns == 15_000


def test_a_missing_comma_loses_nothing() -> None:
    event = '{"ph":"X","cat":"cpu_op","name":"%s","pid":1,"tid":1,"ts":%d,"dur":1}'
    document = "[" + event % ("a", 1) + " " + event % ("b", 2) + "," + event % ("c", 3) + "]"
    reading = read(document.encode())
    assert [row[1] for row in rows(reading)] == ["a", "b", "c"]
    assert reading.notes == {"repaired-comma": 1}


def test_two_halves_are_not_made_into_one_event() -> None:
    """What lies between them is gone, and no repair can prove otherwise."""
    first = '{"ph":"X","cat":"cpu_op","name":"aten::ad'
    second = '"ph":"X","cat":"cpu_op","name":"aten::mul","pid":1,"tid":1,"ts":5,"dur":1}'
    good = '{"ph":"X","cat":"cpu_op","name":"good","pid":1,"tid":1,"ts":9,"dur":1}'
    reading = read(f"[{first}{second},{good}]".encode())
    assert [row[1] for row in rows(reading)] == ["good"]
    assert reading.notes["event-lost"] == 1
