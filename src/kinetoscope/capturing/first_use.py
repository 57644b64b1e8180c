"""Hearing of the program's first use of its device."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

__all__ = ["after_first_use"]


def after_first_use(cuda: ModuleType, callback: Callable[[], None]) -> bool:
    """Call back once, right after ``torch.cuda`` has been initialised; False where this torch cannot tell.

    What torch itself calls at an initialisation runs before its end: no profile of the device can begin then.
    """
    original: Any = getattr(cuda, "_lazy_init", None)
    if not callable(original):
        return False

    @functools.wraps(original)
    def initialise(*arguments: Any, **keywords: Any) -> Any:
        result = original(*arguments, **keywords)
        if holders and cuda.is_initialized():  # it also returns at once to what is called meanwhile
            while holders:
                holder = holders.pop()
                if holder._lazy_init is initialise:  # and not what the program has put there since
                    holder._lazy_init = original
            callback()
        return result

    # parts of torch.cuda have taken the function over from it
    holders: list[Any] = [
        module
        for name, module in list(sys.modules.items())
        if (name == cuda.__name__ or name.startswith(f"{cuda.__name__}."))
        and getattr(module, "__dict__", {}).get("_lazy_init") is original
    ]
    for module in holders:
        module._lazy_init = initialise
    return True
