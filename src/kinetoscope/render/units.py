"""Numbers as people read them: three figures, a unit on every one, "unknown" for what is not known."""

from __future__ import annotations

import math
from collections.abc import Iterable

UNKNOWN = "unknown"

_TIME_UNITS = (("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000))
_BYTE_UNITS = (("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30), ("TiB", 2**40))


def duration(ns: int | None) -> str:
    """A time: us under 1 ms, ms under 1 s, else s.

    >>> duration(4_600_000), duration(950), duration(None)
    ('4.60 ms', '0.95 us', 'unknown')
    """
    if ns is None:
        return UNKNOWN
    for unit, one in _TIME_UNITS[:-1]:
        if abs(ns) < one * 999.5:  # more would be written 1,000
            return f"{_three_figures(ns / one)} {unit}"
    return f"{_three_figures(ns / 1e9)} s"


def durations(values: Iterable[int | None]) -> list[str | None]:
    """Times of one column: one unit, chosen by the largest, and the same number of decimals."""
    values = list(values)
    largest = max((abs(ns) for ns in values if ns is not None), default=0)
    unit, one = next((u for u in _TIME_UNITS if largest < u[1] * 1000), _TIME_UNITS[-1])
    decimals = 1 if unit == "us" and largest >= 10_000 else 3
    smallest = 10.0**-decimals
    shown: list[str | None] = []
    for ns in values:
        if ns is None:
            shown.append(None)
        elif ns and abs(ns / one) < smallest / 2:
            shown.append(f"<{smallest:.{decimals}f} {unit}")
        else:
            shown.append(f"{ns / one:,.{decimals}f} {unit}")
    return shown


def share(value: float | None) -> str:
    """A share of 1 in percent; only the whole is 100 %, only nothing is 0 %.

    >>> share(0.0318), share(0.9996), share(0.0001)
    ('3.2 %', '>99.9 %', '<0.1 %')
    """
    if value is None or math.isnan(value):
        return UNKNOWN
    percent = value * 100
    if 0 < percent < 0.05:
        return "<0.1 %"
    if 99.95 <= percent < 100:
        return ">99.9 %"
    if percent < 10 or (99.5 <= percent < 100):
        return f"{percent:.1f} %" if percent else "0 %"
    return f"{percent:,.0f} %"


def count(value: int | None) -> str:
    """A count, with thousands set apart."""
    return UNKNOWN if value is None else f"{value:,}"


def counted(value: int | None, one: str, many: str | None = None) -> str:
    """A count with its noun.

    >>> counted(1, "step"), counted(1210, "event"), counted(2, "pass", "passes")
    ('1 step', '1,210 events', '2 passes')
    """
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def rate(value: float | None, unit: str) -> str:
    """A rate with its unit; what is not a finite number is unknown."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{_three_figures(value)} {unit}"


def size(value: int | None) -> str:
    """Bytes in binary units."""
    if value is None:
        return UNKNOWN
    if abs(value) < 1000:
        return f"{value} B"
    for unit, one in _BYTE_UNITS[:-1]:
        if abs(value) < one * 999.5:
            return f"{_three_figures(value / one)} {unit}"
    unit, one = _BYTE_UNITS[-1]
    return f"{_three_figures(value / one)} {unit}"


def _three_figures(value: float) -> str:
    magnitude = abs(value)
    if magnitude == 0:
        return "0"
    if magnitude < 0.01:
        return f"{value:.3f}"
    if magnitude < 9.995:
        return f"{value:.2f}"
    if magnitude < 99.95:
        return f"{value:.1f}"
    return f"{value:,.0f}"
