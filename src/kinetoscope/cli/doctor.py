"""``kinetoscope doctor``: what this machine can capture, and what is in the way."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from kinetoscope.capturing.checkup import Check, examine
from kinetoscope.cli.arguments import Parser

__all__ = ["main"]

_SIGNS = {"ok": "ok  ", "note": "note", "problem": "!!  "}


def main(argv: Sequence[str]) -> int:
    """Run the command; 0 also when something is in the way, since that is an answer."""
    parser = Parser(
        prog="kinetoscope doctor",
        description="Say what this machine can capture, and what is in the way.",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    arguments = parser.parse_args(list(argv))
    checks = examine()
    if arguments.format == "json":
        listed = [check.as_json() for check in checks]
        sys.stdout.write(json.dumps({"schema": "kinetoscope.doctor/1", "checks": listed}, indent=1) + "\n")
    else:
        sys.stdout.write(_text(checks))
    return 0


def _text(checks: Sequence[Check]) -> str:
    lines: list[str] = []
    group = ""
    width = max(len(check.name) for check in checks)
    for check in checks:
        if check.group != group:
            group = check.group
            lines += ([""] if lines else []) + [group]
        lines.append(f"  {_SIGNS[check.state]}  {check.name:<{width}}  {check.found}")
        if check.advice:
            lines.append(f"        {'':<{width}}  {check.advice}")
    problems = sum(check.state == "problem" for check in checks)
    lines += ["", f"{problems} in the way" if problems else "Nothing is in the way."]
    return "\n".join(lines) + "\n"
