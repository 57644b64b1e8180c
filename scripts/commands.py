"""The code blocks of a Markdown page: which can be run, and what stands in the way of the others.

    python scripts/commands.py README.md try    print the command of the block named "try"

A block that begins with a comment ``# needs ...`` or ``# to be read ...`` is not run by the tests; its
reader sees why. A comment before a block names it, <!-- command: try -->, or the file that it is,
<!-- file: train.py -->. Only the standard library is used here.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"(?:<!-- (?P<role>command|file): (?P<name>[\w.]+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_NEEDS = re.compile(r"# (?:needs )?(to be read.*|(?<=needs ).+)\n")


@dataclass(frozen=True)
class Block:
    """A fenced block; ``needs``: why it cannot be run just so; ``file``: the file that it shows."""

    page: Path
    line: int
    language: str
    name: str | None
    file: str | None
    needs: str | None
    text: str

    @property
    def commands(self) -> list[str]:
        """The lines that are no comments."""
        return [line for line in self.text.splitlines() if line and not line.startswith("#")]


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        needs = _NEEDS.match(match["text"])
        found.append(
            Block(
                page=page,
                line=text.count("\n", 0, match.start("language")) + 1,
                language=match["language"],
                name=match["name"] if match["role"] == "command" else None,
                file=match["name"] if match["role"] == "file" else None,
                needs=needs and needs.group(1),
                text=match["text"],
            )
        )
    return found


def command(page: Path, name: str) -> str:
    """The one command of the block with this name."""
    (block,) = [block for block in blocks(page) if block.name == name]
    (line,) = block.commands
    return line


if __name__ == "__main__":
    print(command(Path(sys.argv[1]), sys.argv[2]))
