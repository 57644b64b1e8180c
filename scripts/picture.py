"""Draw the picture of the README from the sample's own report: docs/img/report.svg.

    python scripts/picture.py           draw
    python scripts/picture.py --check   exit 1 if the picture shows another text

The picture is a terminal window with a ground of its own, so that it reads alike on light and dark
pages. What it shows stands in it as text too, for screen readers and for the check.
"""

from __future__ import annotations

import argparse
import html
import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import docs
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

TARGET = docs.ROOT / "docs" / "img" / "report.svg"
WIDTH = 80
#: the picture ends before the first of these: two findings are enough to see what they are like
_ENDS = (" 3  ", "Times are of", "Good to know", "Compiled regions")
_DESCRIPTION = re.compile(r"<desc>(.*?)</desc>", re.DOTALL)

# Every colour has a contrast of at least 4.5 on the ground.
_THEME = TerminalTheme(
    (22, 24, 29),
    (216, 219, 224),
    [
        (84, 90, 102),
        (255, 123, 114),
        (126, 211, 131),
        (229, 192, 96),
        (121, 184, 255),
        (205, 160, 255),
        (102, 217, 232),
        (216, 219, 224),
    ],
)
_QUIET = "#9aa1ad"

# Rich's own frame loads a font from elsewhere; a page that shows the picture must not.
_FRAME = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 WIDTH HEIGHT" role="img" aria-labelledby="{unique_id}-t">
<title id="{unique_id}-t">Report of a program with three graph breaks</title>
<desc>DESCRIPTION</desc>
<style>
.{unique_id}-matrix {{
font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
font-size: {char_height}px; line-height: {line_height}px; white-space: pre;
}}
{styles}
</style>
<defs>
{lines}
</defs>
<rect x="1" y="1" width="INNERWIDTH" height="INNERHEIGHT" rx="10" fill="#16181d" stroke="#454b57"/>
<g transform="translate(MARGIN, MARGIN)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""
_CELL_WIDTH, _CELL_HEIGHT, _MARGIN = 12.2, 24.4, 18  # as rich draws them


def shown() -> str:
    """The command and the first screen of its report, in colour."""
    from kinetoscope import render

    report = render.text(docs.sample_report(), width=WIDTH, color=True)
    lines: list[str] = []
    for line in report.splitlines():
        if Text.from_ansi(line).plain.startswith(_ENDS):
            break
        lines.append(line)
    return "\n".join([f"$ kinetoscope report {docs.SAMPLE}", *lines]).rstrip() + "\n"


def draw(text: str) -> str:
    """The picture of a text with colour codes."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    drawn = Text.from_ansi(text.rstrip("\n"))
    # Terminals show "dim" in many ways, most of them too faint here: give it a colour.
    for span in drawn.spans:
        style = span.style
        if not isinstance(style, str) and style.dim:
            drawn.stylize(f"not dim {_QUIET}", span.start, span.end)
    console.print(drawn, soft_wrap=False)
    plain = "\n".join(line.rstrip() for line in drawn.plain.splitlines())
    width = round(WIDTH * _CELL_WIDTH) + 2 * _MARGIN
    height = round((plain.count("\n") + 1) * _CELL_HEIGHT) + 2 * _MARGIN
    values = {
        "INNERWIDTH": width - 2,
        "INNERHEIGHT": height - 2,
        "WIDTH": width,
        "HEIGHT": height,
        "MARGIN": _MARGIN,
        "DESCRIPTION": html.escape(plain).replace("{", "{{").replace("}", "}}"),
    }
    frame = _FRAME
    for name, value in values.items():
        frame = frame.replace(name, str(value))
    return console.export_svg(theme=_THEME, code_format=frame, unique_id="report")


def text_of(picture: str) -> str:
    """What a picture says it shows."""
    found = _DESCRIPTION.search(picture)
    return html.unescape(found.group(1)) if found else ""


def is_fresh() -> bool:
    """Whether the picture shows today's report."""
    return TARGET.exists() and text_of(TARGET.read_text(encoding="utf-8")) == text_of(draw(shown()))


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="draw nothing; exit 1 if the text differs")
    if parser.parse_args(argv).check:
        fresh = is_fresh()
        print(f"{TARGET.relative_to(docs.ROOT)}: {'as the report is' if fresh else 'stale'}")
        return 0 if fresh else 1
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(draw(shown()), encoding="utf-8")
    print(f"written: {TARGET.relative_to(docs.ROOT)}")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(docs.ROOT) / "src"))
    sys.exit(main(sys.argv[1:]))
