"""Names that a trace can hold and that no output may be broken by."""

from __future__ import annotations

from hypothesis import strategies as st

FRAGMENTS = (
    "\x1b[31mred\x1b[0m",
    "\x1b]8;;http://a.example\x07link\x1b]8;;\x07",
    "\x9b2J",
    "\r\n",
    "\n\n# Heading\n",
    "\t",
    "\0",
    "\x7f",
    "[red]markup[/red]",
    "[/]",
    "[link=http://a.example]x[/link]",
    ":smile:",
    "\u202edcba\u202c",
    "\u2066x\u2069",
    "\u2028",
    "\ud800",
    "\udfff\ud800",
    "\ufeff",
    "e\u0301\u0301\u0301\u0301\u0301\u0301",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f44d\U0001f3fd",
    "\U0001f1eb\U0001f1f7",
    "\u4e2d\u6587\u6838",
    "\u1112\u1161\u11ab",
    "| a | b |",
    "\\|",
    "\\",
    "`",
    "``` ```",
    "~~~",
    "<script>alert(1)</script>",
    "<!--",
    "&lt;&#124;",
    "](http://a.example)",
    "![x](y)",
    "**bold** __bold__ *it* _it_ ~~no~~",
    "- item",
    "1. item",
    "> quote",
    "---",
    "===",
    "   ",
    "{{ x }} {% y %} %s {0}",
    "NaN",
    "x" * 5_000,
    "word " * 3_000,
    "\u6838" * 3_000,
)

#: every code point, half surrogates too, mixed with what has a meaning somewhere
names = st.lists(
    st.one_of(st.sampled_from(FRAGMENTS), st.text(st.characters(exclude_categories=()), max_size=20)),
    max_size=6,
).map("".join)
