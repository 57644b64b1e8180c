"""Report -> text, Markdown, JSON.

The renderers are imported when first used: `rich` is not needed to write JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinetoscope.schema import Report

__all__ = ["json", "json_schema", "markdown", "text"]


def text(report: Report, *, width: int = 80, color: bool = False, ascii_only: bool = False) -> str:
    """The report for a terminal: no line is wider than ``width`` cells."""
    from kinetoscope.render import as_text

    return as_text.render(report, width=width, color=color, ascii_only=ascii_only)


def markdown(report: Report, *, brief: bool = False) -> str:
    """The report as GitHub-flavoured Markdown; ``brief`` stays under 2,000 words whatever the input."""
    from kinetoscope.render import as_markdown

    return as_markdown.render(report, brief=brief)


def json(report: Report) -> str:
    """The report as strict JSON."""
    from kinetoscope.render import as_json

    return as_json.render(report)


def json_schema() -> str:
    """The JSON schema that `json` follows."""
    from kinetoscope.render import as_json

    return as_json.schema()
