"""Steps of the pairs' sides, by name: ``STEPS[name](True)`` is the step after the fix, ``(False)`` before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from models import MLP, Convolutions, LongPieces, Pieces, Recurrent, Scales, Transformer
from torch import Tensor, nn

__all__ = ["DEVICE", "STEPS"]

Step = Callable[[], Any]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
_GRAPHS = "reduce-overhead"


def _tokens(batch: int, length: int) -> Tensor:
    return torch.randint(0, 2048, (batch, length), device=DEVICE)


def _inference(model: nn.Module, value: Tensor, mode: str | None = None, **options: Any) -> Step:
    compiled = torch.compile(model.to(DEVICE).eval(), mode=mode, **options)

    def step() -> None:
        with torch.no_grad():
            compiled(value)

    return step


def _training(
    model: nn.Module,
    value: Tensor,
    mode: str | None = None,
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None,
) -> Step:
    model.to(DEVICE)

    def loss_of(value: Tensor) -> Tensor:
        return model(value).float().square().mean()

    compiled = torch.compile(loss_of, mode=mode)
    update = (optimizer or _fused_sgd)(model.parameters())

    def step() -> None:
        compiled(value).backward()
        update.step()
        update.zero_grad()

    return step


def _fused_sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1e-3, fused=True)


def _graphs(fixed: bool) -> str | None:
    return _GRAPHS if fixed else None


# --- CUDA graphs ---


def decode(fixed: bool) -> Step:
    return _inference(Transformer(256, 8).half(), _tokens(1, 1), _graphs(fixed))


def mlp_inference(fixed: bool) -> Step:
    return _inference(MLP(512, 12), torch.randn(16, 512, device=DEVICE), _graphs(fixed))


def convolutions(fixed: bool) -> Step:
    return _inference(Convolutions(64, 16), torch.randn(4, 3, 32, 32, device=DEVICE), _graphs(fixed))


def encoder(fixed: bool) -> Step:
    return _inference(Transformer(256, 6).half(), _tokens(2, 64), _graphs(fixed))


def wide_encoder(fixed: bool) -> Step:
    return _inference(Transformer(768, 8, heads=12).half(), _tokens(4, 256), _graphs(fixed))


def cells(fixed: bool) -> Step:
    return _inference(Recurrent(256, 24), torch.randn(8, 256, device=DEVICE), _graphs(fixed))


def mlp_training(fixed: bool) -> Step:
    return _training(MLP(256, 12), torch.randn(64, 256, device=DEVICE), _graphs(fixed))


def transformer_training(fixed: bool) -> Step:
    return _training(Transformer(256, 4), _tokens(2, 64), _graphs(fixed))


def large_inference(fixed: bool) -> Step:
    return _inference(Transformer(1024, 4).half(), _tokens(32, 512), _graphs(fixed))


def large_training(fixed: bool) -> Step:
    return _training(Transformer(1024, 4), _tokens(8, 512), _graphs(fixed))


# --- graph breaks ---


def breaks_inference(fixed: bool) -> Step:
    return _inference(Pieces(128, breaks=not fixed), torch.randn(128, 128, device=DEVICE))


def many_breaks(fixed: bool) -> Step:
    return _inference(LongPieces(128, breaks=not fixed), torch.randn(64, 128, device=DEVICE))


def breaks_training(fixed: bool) -> Step:
    return _training(Pieces(128, breaks=not fixed), torch.randn(128, 128, device=DEVICE))


class _Gated(nn.Module):
    """Divides by the norm if it is large: asked of a number on the host, or computed on the device."""

    def __init__(self, *, on_device: bool) -> None:
        super().__init__()
        self.first, self.second, self.on_device = MLP(256, 6), MLP(256, 6), on_device

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        norm = x.norm()
        if self.on_device:
            x = torch.where(norm > 1e3, x / norm, x)
        elif norm.item() > 1e3:
            x = x / norm
        result: Tensor = self.second(x)
        return result


def break_on_number(fixed: bool) -> Step:
    return _inference(_Gated(on_device=fixed), torch.randn(64, 256, device=DEVICE))


def breaks_large(fixed: bool) -> Step:
    return _inference(Pieces(4096, breaks=not fixed).half(), torch.randn(8192, 4096, device=DEVICE).half())


# --- synchronisation ---


def _with_number(step_of: Callable[[], Tensor], fixed: bool) -> Step:
    def step() -> None:
        result = step_of()
        if not fixed:
            result.item()

    return step


def _summed(model: nn.Module, value: Tensor) -> Callable[[], Tensor]:
    model.to(DEVICE).eval()
    compiled = torch.compile(lambda value: model(value).float().mean())

    def step() -> Tensor:
        with torch.no_grad():
            result: Tensor = compiled(value)
        return result

    return step


def number_read(fixed: bool) -> Step:
    return _with_number(_summed(Transformer(512, 8, heads=8).half(), _tokens(16, 512)), fixed)


def number_read_large(fixed: bool) -> Step:
    return _with_number(_summed(Transformer(1024, 4).half(), _tokens(32, 512)), fixed)


def number_read_small(fixed: bool) -> Step:
    return _with_number(_summed(Transformer(256, 8).half(), _tokens(1, 16)), fixed)


def synchronised_pieces(fixed: bool) -> Step:
    pieces = [torch.compile(MLP(1024, 4).to(DEVICE).half().eval()) for _ in range(4)]
    value = torch.randn(16384, 1024, device=DEVICE).half()

    def step() -> None:
        result = value
        with torch.no_grad():
            for piece in pieces:
                result = piece(result)
                if not fixed:
                    torch.cuda.synchronize()

    return step


# --- copies ---


class _Prefetched:
    """The next batch, copied from pinned memory on a stream of its own."""

    def __init__(self, batch: Tensor) -> None:
        self._batch = batch.pin_memory()
        self._stream = torch.cuda.Stream()
        self._fetch()

    def _fetch(self) -> None:
        with torch.cuda.stream(self._stream):
            self._next = self._batch.to(DEVICE, non_blocking=True)

    def take(self) -> Tensor:
        torch.cuda.current_stream().wait_stream(self._stream)
        batch = self._next
        batch.record_stream(torch.cuda.current_stream())
        self._fetch()
        return batch


def batch_copied(fixed: bool) -> Step:
    compiled = torch.compile(MLP(2048, 8).to(DEVICE).eval())
    batch = torch.randn(4096, 2048)
    prefetched = _Prefetched(batch) if fixed else None

    def step() -> None:
        value = batch.to(DEVICE) if prefetched is None else prefetched.take()
        with torch.no_grad():
            compiled(value)

    return step


def result_copied(fixed: bool) -> Step:
    compiled = torch.compile(MLP(1024, 8).to(DEVICE).eval())
    value = torch.randn(8192, 1024, device=DEVICE)
    buffer = torch.empty(8192, 1024, pin_memory=True) if fixed else None
    beside = torch.cuda.Stream() if fixed else None

    def step() -> None:
        with torch.no_grad():
            result = compiled(value)
        if beside is None or buffer is None:
            result.cpu()
            return
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            buffer.copy_(result, non_blocking=True)
        result.record_stream(beside)

    return step


def small_copies(fixed: bool) -> Step:
    compiled = torch.compile(MLP(4096, 4).to(DEVICE).half().eval())
    value = torch.randn(4096, 4096, device=DEVICE).half()
    numbers = torch.randn(64).pin_memory()
    there = numbers.to(DEVICE)

    def step() -> None:
        scale = there if fixed else numbers.to(DEVICE, non_blocking=True)
        with torch.no_grad():
            compiled(value * scale[0].half())

    return step


# --- optimizers ---


def adamw(fixed: bool) -> Step:
    return _training(
        Transformer(256, 6),
        _tokens(4, 64),
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-4, fused=fixed or None),
    )


def sgd_by_parameter(fixed: bool) -> Step:
    return _training(
        MLP(512, 24),
        torch.randn(64, 512, device=DEVICE),
        optimizer=lambda parameters: torch.optim.SGD(
            parameters, lr=1e-3, momentum=0.9, **({"fused": True} if fixed else {"foreach": False})
        ),
    )


def adam_large(fixed: bool) -> Step:
    return _training(
        MLP(1024, 4),
        torch.randn(65536, 1024, device=DEVICE),
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=1e-4, fused=fixed or None),
    )


# --- guards ---


def _unguarded(fixed: bool) -> dict[str, Any]:
    return {"options": {"guard_filter_fn": lambda guards: [False for _ in guards]}} if fixed else {}


def guards(fixed: bool) -> Step:
    return _inference(Scales(1500), torch.randn(512, 512, device=DEVICE), **_unguarded(fixed))


def fewer_guards(fixed: bool) -> Step:
    model = nn.Sequential(MLP(256, 4), Scales(400), MLP(256, 4))
    return _inference(model, torch.randn(64, 256, device=DEVICE), **_unguarded(fixed))


# --- kernels and memory ---


def _beside_sleep(model: nn.Module, value: Tensor, cycles: int) -> Step:
    compiled = torch.compile(model.to(DEVICE).eval())

    def step() -> None:
        with torch.no_grad():
            compiled(value)
        torch.cuda._sleep(cycles)

    return step


def slow_kernel(fixed: bool) -> Step:
    model = MLP(1024, 8).half()
    return _beside_sleep(
        model, torch.randn(8192, 1024, device=DEVICE).half(), 2_000_000 if fixed else 4_000_000
    )


def kernel_in_shadow(fixed: bool) -> Step:
    return _beside_sleep(Transformer(256, 8).half(), _tokens(1, 16), 50_000 if fixed else 200_000)


def cache_emptied(fixed: bool) -> Step:
    compiled = torch.compile(MLP(2048, 6).to(DEVICE).eval())
    value = torch.randn(4096, 2048, device=DEVICE)

    def step() -> None:
        with torch.no_grad():
            compiled(value)
        if not fixed:
            torch.cuda.empty_cache()

    return step


STEPS = {
    make.__name__: make
    for make in (
        decode,
        mlp_inference,
        convolutions,
        encoder,
        wide_encoder,
        cells,
        mlp_training,
        transformer_training,
        breaks_inference,
        many_breaks,
        breaks_training,
        break_on_number,
        number_read,
        synchronised_pieces,
        batch_copied,
        result_copied,
        adamw,
        sgd_by_parameter,
        guards,
        fewer_guards,
        slow_kernel,
        cache_emptied,
        large_inference,
        large_training,
        breaks_large,
        number_read_large,
        number_read_small,
        small_copies,
        adam_large,
        kernel_in_shadow,
    )
}
