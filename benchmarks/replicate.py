"""Make a trace of any size from a real one: the same events again and again, later and with new ids.

    python benchmarks/replicate.py TRACE OUT --size 1.14GB

Every copy starts where the one before it ended. Correlation ids, flow ids, external ids and sequence
numbers move on as well, so that a copy's kernels belong to its own launches. Text is laid out as the
profiler lays it out, or, with --layout line, without any white space.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Layout = Literal["profiler", "line"]

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
_BLOCK_COPIES_BYTES = 8 << 20
#: args whose numbers must differ between copies, by what they count
_IDS = {"correlation": "correlation", "External id": "external", "Sequence number": "sequence"}
_GAP_NS = 1_000_000


class Number(float):
    """A number that remembers how it was written."""

    text: str

    def __new__(cls, text: str) -> Number:
        made = super().__new__(cls, text)
        made.text = text
        return made


@dataclass(frozen=True)
class _Template:
    """An event's text with a place for each number that moves; ``values`` are (what, number), in order."""

    text: str
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Source:
    """A trace taken apart: what to repeat, what to write once, and how far apart the copies are."""

    header: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]]
    once: Sequence[Mapping[str, Any]]
    shifts: Mapping[str, int]

    def events_in(self, copies: int) -> int:
        """Events of the file that so many copies make."""
        return copies * len(self.events) + len(self.once)


def read(path: Path) -> Source:
    """Take a trace apart."""
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    document = json.loads(data, parse_float=Number)
    if isinstance(document, list):
        document = {"traceEvents": document}
    repeated: list[Mapping[str, Any]] = []
    once: list[Mapping[str, Any]] = []
    for event in document["traceEvents"]:
        (once if _is_written_once(event) else repeated).append(event)
    if not repeated:
        raise SystemExit(f"{path} holds no event that could be repeated")
    times = [(ns(event["ts"]), ns(event.get("dur", 0))) for event in repeated]
    highest: dict[str, int] = {}
    for event in repeated:
        for what, number in _moving(event):
            highest[what] = max(highest.get(what, 0), number)
    span = max(start + length for start, length in times) - min(start for start, _ in times)
    # a flow's id is its launch's correlation
    ids = max(highest.get("correlation", 0), highest.get("flow", 0))
    shifts = {what: number + 1 for what, number in highest.items()}
    shifts |= {"correlation": ids + 1, "flow": ids + 1, "time": span + _GAP_NS}
    header = {key: value for key, value in document.items() if key != "traceEvents"}
    return Source(header, repeated, once, shifts)


def _is_written_once(event: Mapping[str, Any]) -> bool:
    return event.get("ph") == "M" or event.get("pid") in ("", "Spans", "Traces") or "ts" not in event


def _moving(event: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    args = event.get("args")
    for key, value in (args if isinstance(args, dict) else {}).items():
        if key in _IDS and isinstance(value, int):
            yield _IDS[key], value
    if isinstance(event.get("id"), int):
        yield "flow", event["id"]


def ns(value: Number | int | str) -> int:
    """Microseconds as they are written, in whole nanoseconds, exactly."""
    text = value.text if isinstance(value, Number) else str(value)
    whole, _, rest = text.partition(".")
    return int(whole) * 1000 + int((rest + "000")[:3]) * (-1 if whole.startswith("-") else 1)


def _us(value: int) -> str:
    return f"{'-' if value < 0 else ''}{abs(value) // 1000}.{abs(value) % 1000:03d}"


def _template(event: Mapping[str, Any], layout: Layout) -> _Template:
    values: list[tuple[str, int]] = []
    colon, comma = (": ", ", ") if layout == "profiler" else (":", ",")

    def dump(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(comma, colon)).replace("%", "%%")

    def pair(key: str, value: Any, what: str | None) -> str:
        if what is not None:
            values.append((what, ns(value) if what == "time" else value))
            return f"{dump(key)}{colon}%s"
        return f"{dump(key)}{colon}{value.text if isinstance(value, Number) else dump(value)}"

    first: list[tuple[str, Any, str | None]] = []
    second: list[tuple[str, Any, str | None]] = []
    for key, value in event.items():
        if key == "args" and isinstance(value, dict):
            continue
        what = {"ts": "time", "id": "flow"}.get(key)
        where = second if key in ("ts", "dur", "id", "bp", "s") else first
        where.append((key, value, what if what == "time" or isinstance(value, int) else None))
    lines = [comma.join(pair(*entry) for entry in part) for part in (first, second) if part]
    if isinstance(event.get("args"), dict):
        inner = comma.join(
            pair(key, value, _IDS.get(key) if isinstance(value, int) else None)
            for key, value in event["args"].items()
        )
        args = f'"args": {{\n      {inner}\n    }}' if layout == "profiler" else f'"args":{{{inner}}}'
        lines.append(args)
    if layout == "line":
        return _Template(f"{{{','.join(lines)}}}", tuple(values))
    body = ",\n    ".join(lines)
    return _Template(f"  {{\n    {body}\n  }}", tuple(values))


def write(
    source: Source, path: Path, copies: int, layout: Layout = "profiler", opener: Callable[..., Any] = open
) -> int:
    """Write so many copies; returns the size in bytes."""
    joint = ",\n" if layout == "profiler" else ","
    templates = [_template(event, layout) for event in source.events]
    text = joint.join(template.text for template in templates)
    order = [(what, number) for template in templates for what, number in template.values]
    shifts = [source.shifts[what] for what, _ in order]
    is_time = [what == "time" for what, _ in order]
    numbers = [number for _, number in order]
    once = joint.join(_template(event, layout).text % _plain(event, layout) for event in source.once)
    head = json.dumps(source.header, ensure_ascii=False, separators=(",", ":"))
    start = f"{head[:-1]}{',' if len(head) > 2 else ''}" + (
        '\n"traceEvents": [\n' if joint != "," else '"traceEvents":['
    )
    with opener(path, "wb") as out:
        out.write(start.encode())
        for copy in range(copies):
            moved = [
                _us(number + copy * shift) if time else number + copy * shift
                for number, shift, time in zip(numbers, shifts, is_time, strict=True)
            ]
            out.write(((joint if copy else "") + text % tuple(moved)).encode())
        out.write(((joint + once if once else "") + ("\n]}\n" if joint != "," else "]}")).encode())
    return path.stat().st_size


def _plain(event: Mapping[str, Any], layout: Layout) -> tuple[Any, ...]:
    return tuple(_us(n) if what == "time" else n for what, n in _template(event, layout).values)


def copies_for(source: Source, size: int, scratch: Path) -> int:
    """How many copies make a file of about this size; ``scratch`` is written and removed."""
    try:
        two = write(source, scratch, 2)
        one = write(source, scratch, 1)
    finally:
        scratch.unlink(missing_ok=True)
    return max(1, round((size - one) / (two - one)) + 1)


def size_of(text: str) -> int:
    """``1.14GB``, ``20M`` or ``5000`` in bytes."""
    found = re.fullmatch(r"([0-9.]+)\s*([KMG]?)B?", text.strip(), re.IGNORECASE)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write 1.14GB, 20MB or 5000")
    return int(float(found.group(1)) * _UNITS[found.group(2).upper()])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("out", type=Path)
    amount = parser.add_mutually_exclusive_group(required=True)
    amount.add_argument("--size", type=size_of)
    amount.add_argument("--copies", type=int)
    parser.add_argument("--layout", choices=("profiler", "line"), default="profiler")
    options = parser.parse_args()
    source = read(options.trace)
    copies = options.copies or copies_for(source, options.size, options.out)
    size = write(source, options.out, copies, options.layout)
    print(f"{options.out}: {copies} copies, {source.events_in(copies):,} events, {size:,} bytes")


if __name__ == "__main__":
    main()
