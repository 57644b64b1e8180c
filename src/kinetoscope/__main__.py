"""The program: ``kinetoscope`` and ``python -m kinetoscope``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module

from kinetoscope.cli import errors

# These run beside torch, often where nothing else is installed: they need the standard library only.
_PLAIN = {"run": "kinetoscope.cli.run", "doctor": "kinetoscope.cli.doctor"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in _PLAIN:
        command = partial(_plain, _PLAIN[arguments[0]], arguments[1:])
        return errors.status_of(command, stdout_is_ours=arguments[0] != "run")
    return errors.status_of(partial(_app, arguments))


def _plain(module: str, arguments: list[str]) -> int:
    return int(import_module(module).main(arguments))


def _app(arguments: list[str]) -> int:
    from kinetoscope.cli.app import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
