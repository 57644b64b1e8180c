"""Numbers that are valid JSON and no time, id or size: they cost one value, not the report, and no memory."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import kinetoscope

LONG = "1" + "0" * 400
NUMBERS = ["1e400", "-1e400", "1e999999999", "-1e999999999", "1e-999999999", LONG]
EVENTS = {
    "time": '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":%s,"dur":1}',
    "time as text": '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":"%s","dur":1}',
    "duration": '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":%s}',
    "process": '{"ph":"X","cat":"cpu_op","name":"a","pid":%s,"tid":1,"ts":1,"dur":1}',
    "args": '{"ph":"X","cat":"kernel","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"correlation":%s}}',
    "other args": '{"ph":"X","cat":"kernel","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"x":%s}}',
    "instant": '{"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":%s,"s":"t"}',
    "bytes": '{"ph":"i","name":"[memory]","pid":1,"tid":1,"ts":1,"s":"t","args":{"Bytes":%s}}',
    "counter's time": '{"ph":"C","name":"c","pid":1,"tid":1,"ts":%s,"args":{"v":1}}',
    "counter": '{"ph":"C","name":"c","pid":1,"tid":1,"ts":1,"args":{"v":%s}}',
    "metadata": '{"ph":"M","name":"process_sort_index","pid":1,"tid":1,"ts":%s,"args":{"sort_index":2}}',
    "sort index": '{"ph":"M","name":"process_sort_index","pid":1,"tid":1,"ts":0,"args":{"sort_index":%s}}',
    "flow": '{"ph":"s","id":%s,"name":"ac2g","cat":"ac2g","pid":1,"tid":1,"ts":1}',
    "flow's time": '{"ph":"s","id":1,"name":"ac2g","cat":"ac2g","pid":1,"tid":1,"ts":%s}',
}
SOUND = '{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":5,"dur":2}'


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    """A number with an exponent of a billion must not be written out: that would take hours."""

    def stop(*_: object) -> None:
        raise TimeoutError("a number was written out")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("number", NUMBERS, ids=[number[:12] for number in NUMBERS])
@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS.keys())
def test_the_rest_is_read(tmp_path: Path, event: str, number: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(f'{{"traceEvents":[{SOUND},{event % number}]}}')
    trace = kinetoscope.load(str(path))
    sound = trace.slices.filter(trace.slices["name"] == "aten::mm")
    assert sound["dur_ns"].to_list() == [2_000]
    report = kinetoscope.report(path, use_store=False)
    assert report.trace.events == 2
    for row in range(len(trace.columns)):
        assert isinstance(trace.args(row), dict)
