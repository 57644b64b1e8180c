"""Every finding can be looked up: the page has a section for each code of the schema, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from kinetoscope.schema import FindingCode

PAGE = Path(__file__).resolve().parents[1] / "docs" / "findings.md"
CODES = get_args(FindingCode)


def sections() -> dict[str, str]:
    """Text of each section by its heading."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_a_section_a_code() -> None:
    assert sorted(sections()) == sorted(CODES)


@pytest.mark.parametrize("code", CODES)
def test_a_section_says_what_how_and_what_to_do(code: str) -> None:
    text = sections()[code]
    assert [part for part in ("**Means.**", "**Found by.**", "**Do.**") if part not in text] == []
    assert "!" not in text


def test_the_overview_links_every_code_once() -> None:
    overview = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    assert sorted(re.findall(r"\[([\w-]+)\]\(#\1\)", overview)) == sorted(CODES)


def test_links_lead_somewhere() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"\(#([\w-]+)\)", text)) <= set(CODES)
