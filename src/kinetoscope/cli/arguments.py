"""Argument parsing of the commands that need the standard library only, in the manner of the others."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from kinetoscope.errors import UsageError

__all__ = ["Parser"]


class _Paragraphs(argparse.HelpFormatter):
    """Fits texts to the width, and keeps the empty lines in them."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n\n".join(fill(part, width, indent) for part in text.split("\n\n"))


class Parser(argparse.ArgumentParser):
    """Says in one line what was wrong, as `UsageError`, where argparse prints usage and ends the process."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_Paragraphs, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong, and where to read on."""
        raise UsageError(f"{' '.join(message.split())}; {self.prog} --help says what there is")
