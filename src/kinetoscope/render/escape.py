"""Make text from a trace safe to show.

Event names, arguments and paths come from programs, so they can hold anything: terminal escapes,
newlines, bidirectional controls, half surrogates. `clean` shows whatever cannot be seen, or would
act on the screen, as the escape a Python literal would use.
"""

from __future__ import annotations

import re
import unicodedata

# Printable as Python sees it, and still invisible, or merged by a terminal with its neighbour,
# which would make the width of a line unknowable.
_UNSEEN = re.compile(
    "[\u034f\u115f-\u11ff\u17b4\u17b5\u2800\u3164\ud7b0-\ud7ff\ufe00-\ufe0f\uffa0"
    "\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff\U000e0100-\U000e01ef]"
)
_MARKS_TOGETHER = 3  # accents stacked on one letter; more of them are a prank, and climb over other lines
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def clean(text: str, *, ascii_only: bool = False) -> str:
    """``text`` on one line, with everything unseen, active or of unknown width escaped.

    With ``ascii_only`` every character beyond ASCII is escaped too.
    """
    if text.isascii():
        return text if text.isprintable() else "".join(map(_ascii_or_escape, text))
    if ascii_only:
        return "".join(map(_ascii_or_escape, text))
    shown: list[str] = []
    marks = 0
    for char in unicodedata.normalize("NFC", text):
        marks = marks + 1 if unicodedata.combining(char) else 0
        seen = char.isprintable() and marks <= _MARKS_TOGETHER and not _UNSEEN.match(char)
        # vowel signs, and marks that are no accents on a letter: terminals disagree how wide they are
        seen = seen and not (unicodedata.category(char).startswith("M") and not unicodedata.combining(char))
        shown.append(char if seen else _escape(char))
    return "".join(shown)


def replace_surrogates(text: str) -> str:
    """``text`` with half surrogates escaped, since no encoding can write them."""
    return text if text.isascii() else "".join(_escape(c) if "\ud800" <= c <= "\udfff" else c for c in text)


def _ascii_or_escape(char: str) -> str:
    return char if " " <= char <= "~" else _escape(char)


def _escape(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
