"""Seeing optimizer steps, compiled calls and module calls without changing what the program computes.

Three rules made these hooks what they are:

* The compiler must not see them. Dynamo traces hooks and guards on them, so the optimizer hook is taken away
  for the duration of every compiled call, and the module hook for good before the first one.
* They must not show in tracebacks. None of them is on the stack while the user's code runs.
* They must cost next to nothing: see :mod:`kinetoscope.capturing.pulse`.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import os
import sys
import types
import weakref
from collections.abc import Callable
from threading import get_ident
from types import FrameType
from typing import Any, Final

from kinetoscope.capturing.pulse import Pulse
from kinetoscope.capturing.steps import EventKind

__all__ = ["StepHooks", "torch_directory"]

_OnEvent = Callable[[EventKind, int, Any], None]
_MAX_ROOTS: Final = 16


def _nothing(*_: Any) -> None:
    """Leave a compiled call that is not watched; hear of an optimizer no longer."""


def torch_directory() -> str:
    """Where torch's files are, with the separator that ends a directory; "" before torch is imported."""
    file = getattr(sys.modules.get("torch"), "__file__", None)
    return os.path.dirname(file) + os.sep if file else ""


class StepHooks:
    """The three hooks; ``on_event(kind, key, subject)`` hears of every event of the program's own thread.

    A profiler records the calls of the thread that started it. That is the thread that imported torch; where
    that one does nothing visible, ``may_adopt`` is asked whether another may take its place.
    """

    def __init__(
        self,
        on_event: _OnEvent,
        warn: Callable[[str], None],
        may_adopt: Callable[[], bool],
        pulse: Pulse | None = None,
    ) -> None:
        self.only_key: int | None = None
        """Set by the listener: the one compiled callable that still matters."""
        self.pulse = pulse or Pulse()
        """The listener may have it count steps, and then does not hear of their events."""
        self._on_event = on_event
        self._warn = warn
        self._may_adopt = may_adopt
        self._keys = itertools.count(1)
        self._compiled: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._optimizer_hooks: dict[int, Any] | None = None
        self._optimizer_handle: Any = None
        self._in_optimizer = False
        self._modules: _ModuleCalls | None = None

    def stop(self) -> None:
        """Take the hooks away."""
        self.pulse.left = self.pulse.thread = 0
        self._stop_modules()
        for context, enter in list(self._compiled.items()):
            # A call may be going through this list just now: only taking the last away is safe then.
            if context.enter_exit_hooks and context.enter_exit_hooks[-1] is enter:
                context.enter_exit_hooks.pop()
        self._compiled.clear()
        hooks, self._optimizer_hooks = self._optimizer_hooks, None
        handle, self._optimizer_handle = self._optimizer_handle, None
        if handle is not None:
            if self._in_optimizer and hooks is not None:
                # The optimizer is going through the hooks just now: their number must stay.
                hooks[handle.id] = _nothing
            else:
                handle.remove()

    def is_program_thread(self) -> bool:
        """Whether the calling thread is the one whose steps are seen."""
        thread, pulse = get_ident(), self.pulse
        if thread != pulse.thread and pulse.thread and self._may_adopt():
            pulse.thread = thread
        return thread == pulse.thread

    def narrow_modules(self) -> None:
        """See only the modules already seen at the top: calls of all others then cost nothing."""
        if self._modules is not None:
            self._modules.narrow()

    # --- optimizers ---

    def watch_optimizers(self) -> None:
        """Hear of every ``optimizer.step()`` made by eager code."""
        try:
            optimizer: Any = importlib.import_module("torch.optim.optimizer")
            self._optimizer_handle = optimizer.register_optimizer_step_post_hook(self._after_optimizer_step)
            self._optimizer_hooks = optimizer._global_optimizer_post_hooks
            if self._optimizer_handle.id not in self._optimizer_hooks:
                raise AttributeError("the hook is not where it was expected")
        except (ImportError, AttributeError, NameError) as error:
            self._optimizer_hooks = None
            self._warn(f"optimizer steps cannot be seen safely ({error}); lost: steps told by optimizers")
            if self._optimizer_handle is not None:
                self._optimizer_handle.remove()
                self._optimizer_handle = None

    def _after_optimizer_step(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        pulse = self.pulse
        if get_ident() != pulse.thread and not self.is_program_thread():
            return
        pulse.depth = 0
        if pulse.left and pulse.optimizer:
            pulse.stepped(id(optimizer))
            return
        self._in_optimizer = True
        try:
            self._on_event("optimizer", id(optimizer), optimizer)
        finally:
            self._in_optimizer = False

    # --- compiled functions ---

    def watch_compiled(self, eval_frame: types.ModuleType) -> None:
        """Hear of every call of a compiled function; hooks ``torch._dynamo.eval_frame``."""
        context = getattr(eval_frame, "OptimizeContext", None)
        original = getattr(context, "__init__", None)
        if context is None or original is None:
            self._warn("torch._dynamo.eval_frame has no OptimizeContext; lost: steps told by compiled calls")
            return
        hooks = self

        def __init__(self: Any, *arguments: Any, **keywords: Any) -> None:
            original(self, *arguments, **keywords)
            enter_exit = getattr(self, "enter_exit_hooks", None)
            if hooks.pulse.thread and isinstance(enter_exit, list):
                # Last, so that no other hook can fail between our entering and our leaving.
                enter = hooks._entering(next(hooks._keys))
                enter_exit.append(enter)
                hooks._compiled[self] = enter
            elif hooks.pulse.thread:
                hooks._warn("compiled functions have no enter_exit_hooks; lost: steps told by compiled calls")

        __init__.__wrapped__ = original  # type: ignore[attr-defined]
        context.__init__ = __init__

    def _entering(self, key: int) -> Callable[[], Callable[[], None]]:
        pulse, after = self.pulse, self._after_optimizer_step

        def leave() -> None:
            pulse.depth -= 1
            if pulse.depth <= 0 and self._optimizer_hooks is not None:
                self._optimizer_hooks[self._optimizer_handle.id] = after

        def enter() -> Callable[[], None]:
            if get_ident() != pulse.thread and not self.is_program_thread():
                return _nothing
            if pulse.depth == 0:
                if pulse.closing is not None and (pulse.due or key == self.only_key):
                    pulse.closing()
                if self._modules is not None:
                    self._stop_modules()
                if pulse.left:
                    pulse.called(key)
                elif self.only_key is None or self.only_key == key:
                    self._on_event("compiled", key, None)
                if self._optimizer_hooks is not None:
                    self._optimizer_hooks.pop(self._optimizer_handle.id, None)
            pulse.depth += 1
            return leave

        return enter

    # --- modules ---

    def watch_modules(self) -> None:
        """Hear of every module that eager code calls, until the program compiles something."""
        try:
            from torch.nn import Module

            self._modules = _ModuleCalls(Module, self)
        except (ImportError, AttributeError, TypeError) as error:
            self._warn(f"module calls cannot be seen ({error}); lost: steps told by module calls")

    def module_called(self, module: Any) -> None:
        """A module is about to be called and no other module's call is on the stack."""
        if self.pulse.depth or not self.is_program_thread():
            return
        if self.pulse.left:
            self.pulse.called(id(module))
        else:
            self._on_event("module", id(module), module)

    def _stop_modules(self) -> None:
        if self._modules is not None:
            self._modules.remove()
            self._modules = None


class _ModuleCalls:
    """Sees module calls by a descriptor in the place of ``Module.__call__``.

    Python looks ``__call__`` up on the class for every call. The descriptor notices that and hands out the
    original method, so nothing of ours is on the stack when the module runs.
    """

    def __init__(self, module_class: type, hooks: StepHooks) -> None:
        self._hooks = hooks
        self._call_impl = module_class._call_impl.__code__  # type: ignore[attr-defined]
        self._roots: dict[int, Any] = {}
        self._narrow = False
        self._patched: list[tuple[type, Any]] = []
        self._patch(module_class)

    def remove(self) -> None:
        for owner, original in self._patched:
            if isinstance(owner.__dict__.get("__call__"), _Noticing):
                if original is None:
                    del owner.__call__
                else:
                    owner.__call__ = original  # type: ignore[method-assign]
        self._patched.clear()
        self._roots.clear()

    def narrow(self) -> None:
        if self._narrow:
            return
        roots = dict(self._roots)
        self.remove()
        self._narrow, self._roots = True, roots
        for owner in {type(root) for root in roots.values()}:
            self._patch(owner)

    def notice(self, module: Any) -> None:
        """A module is being called: is it by the user's code, at the top?"""
        key, pulse = id(module), self._hooks.pulse
        if pulse.left and not pulse.due and key != pulse.key:
            if get_ident() == pulse.thread:
                pulse.called(key)
            return
        if self._narrow:
            if self._roots.get(key) is module:
                self._hooks.module_called(module)
            return
        caller = sys._getframe(2)
        # torch.compile(module) looks its __call__ up as well, and calls nothing.
        if self._is_nested(caller) or f"{os.sep}_dynamo{os.sep}" in caller.f_code.co_filename:
            return
        if len(self._roots) < _MAX_ROOTS:
            self._roots[key] = module
        self._hooks.module_called(module)

    def _is_nested(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code is self._call_impl:
                return True
            frame = frame.f_back
        return False

    def _patch(self, owner: type) -> None:
        call = inspect.getattr_static(owner, "__call__")
        if not isinstance(call, types.FunctionType):
            raise TypeError(f"{owner.__name__}.__call__ is not a function")
        own = owner.__dict__.get("__call__")
        owner.__call__ = _Noticing(call, self)  # type: ignore[method-assign,assignment]
        self._patched.append((owner, own))


class _Noticing:
    """Stands for a class's ``__call__``: looking it up on an instance is the sign of a call."""

    def __init__(self, call: types.FunctionType, calls: _ModuleCalls) -> None:
        self._call = call
        self._calls = calls

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._call
        self._calls.notice(instance)
        return types.MethodType(self._call, instance)
