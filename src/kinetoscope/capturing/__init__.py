"""Capturing: the only part of kinetoscope that needs torch.

Everything here runs inside the user's own process, often in a training image that holds torch and nothing
else. So this package imports the standard library and torch only, never the packages that analyse; and it
imports torch inside functions, so that ``kinetoscope doctor`` can say that torch is missing.

The package is not called ``capture`` because :class:`kinetoscope.capture` is the context manager, and a
submodule of the same name would take its place as soon as something imported it.
"""
