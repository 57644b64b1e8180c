"""What kinetoscope raises.

KinetoscopeError            every error of ours; its text is one line: what, where, what to do
├── InputError              an input cannot be read
│   ├── NotATraceError      it was read, and it is something else
│   └── EmptyTraceError     it is a trace without one whole event
├── UsageError              the call contradicts itself, or asks for what is not there
├── CaptureError            a program could not be captured
└── InternalError           a promise of our own was broken (a worker died, a store was unreadable)
"""

from __future__ import annotations

__all__ = [
    "CaptureError",
    "EmptyTraceError",
    "InputError",
    "InternalError",
    "KinetoscopeError",
    "NotATraceError",
    "UsageError",
]


class KinetoscopeError(Exception):
    """Base of every error raised by kinetoscope; ``str(error)`` is one line for a person."""


class InputError(KinetoscopeError):
    """An input cannot be read: missing, not permitted, damaged beyond use."""


class NotATraceError(InputError):
    """The input was read and is not a profiler trace."""


class EmptyTraceError(InputError):
    """The input is a trace, and not one event of it survived."""


class UsageError(KinetoscopeError):
    """The call contradicts itself, or names a step, annotation or kernel that is not there."""


class CaptureError(KinetoscopeError):
    """A program could not be captured."""


class InternalError(KinetoscopeError):
    """A promise of kinetoscope's own was broken."""
