"""kinetoscope explains the performance of torch.compile programs.

Public names are imported on first use, so that ``import kinetoscope`` costs nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"
