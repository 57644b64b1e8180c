"""A report as strict JSON, and the schema it follows."""

from __future__ import annotations

import re

import msgspec

from kinetoscope.render.escape import replace_surrogates
from kinetoscope.render.strings import map_strings
from kinetoscope.schema import Report

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
# Legal in JSON as they are, and still not safe on a terminal or in a script element's text.
_ACTIVE = re.compile(
    "[\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def render(report: Report) -> str:
    """The report as JSON: no NaN (written null), no raw control characters, half surrogates escaped."""
    encoded = msgspec.json.encode(map_strings(report, replace_surrogates))
    text = msgspec.json.format(encoded, indent=2).decode()
    return _ACTIVE.sub(_escape, text) + "\n"


def schema() -> str:
    """The JSON schema of `render`'s output, made from the types."""
    made = msgspec.json.schema(Report)
    return msgspec.json.format(msgspec.json.encode({"$schema": _DRAFT, **made}), indent=2).decode() + "\n"


def _escape(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
