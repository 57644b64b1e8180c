"""Numbers inside sentences: evidence and findings say every number with its unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_UNITS = (("us", 1e3), ("ms", 1e6), ("s", 1e9))


def duration(ns: float) -> str:
    """A time with three figures.

    >>> duration(378_100), duration(4_600_000), duration(950)
    ('378 us', '4.60 ms', '0.95 us')
    """
    if ns == 0:
        return "0 us"
    unit, one = next((u for u in _UNITS if abs(ns) < u[1] * 999.5), _UNITS[-1])
    value = abs(ns) / one
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{ns / one:,.{decimals}f} {unit}"


def percent(share: float) -> str:
    """A share of 1 in percent; only the whole is 100 %, only nothing is 0 %.

    >>> percent(0.87), percent(0.0002), percent(0.9999)
    ('87 %', '0.02 %', '99.9 %')
    """
    value = share * 100
    if value == 0 or value == 100:
        return f"{value:.0f} %"
    if value > 99:
        return f"{min(value, 99.9):.1f} %"
    return f"{value:.0f} %" if value >= 9.95 else f"{value:.1f} %" if value >= 0.95 else f"{value:.1g} %"


def counted(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun.

    >>> counted(1, "step"), counted(1210, "event")
    ('1 step', '1,210 events')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(items: Iterable[str], limit: int = 4) -> str:
    """The first few of a list, and how many more there are.

    >>> listed(["a", "b", "c"]), listed("abcdefg", 3)
    ('a, b and c', 'a, b, c and 4 more')
    """
    texts: Sequence[str] = list(items)
    if len(texts) > limit:
        return f"{', '.join(texts[:limit])} and {len(texts) - limit:,} more"
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else "".join(texts)
