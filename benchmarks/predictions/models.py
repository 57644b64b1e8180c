"""Small models of the kinds that users compile; sizes decide who sets the pace, host or device."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["MLP", "Convolutions", "LongPieces", "Pieces", "Recurrent", "Scales", "Transformer"]


class MLP(nn.Sequential):
    """Linear layers with an activation each."""

    def __init__(self, width: int, depth: int) -> None:
        layers: list[nn.Module] = []
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.GELU()]
        super().__init__(*layers)


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.projection, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = self.projection(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.between(x))))


class Transformer(nn.Module):
    """A causal transformer over token numbers below 2048."""

    def __init__(self, width: int, depth: int, heads: int = 4, tokens: int = 2048) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(depth))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        result: Tensor = self.head(self.last(x))
        return result


class Convolutions(nn.Module):
    """Residual convolutions over small pictures."""

    def __init__(self, channels: int, depth: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.convolutions = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(depth))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(depth))
        self.head = nn.Linear(channels, 100)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = x + functional.relu(norm(convolution(x)))
        result: Tensor = self.head(x.mean((2, 3)))
        return result


class Recurrent(nn.Module):
    """One gated cell, unrolled: many small kernels."""

    def __init__(self, width: int, turns: int) -> None:
        super().__init__()
        self.turns = turns
        self.gates, self.candidate = nn.Linear(2 * width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x)
        for _ in range(self.turns):
            update, reset = torch.sigmoid(self.gates(torch.cat((x, state), -1))).chunk(2, -1)
            fresh = torch.tanh(self.candidate(torch.cat((x, reset * state), -1)))
            state = update * state + (1 - update) * fresh
        return state


class Pieces(nn.Module):
    """Four pieces one after the other, with a graph break between each two where asked.

    Not in a loop: a break in one makes the compiler give up the whole frame.
    """

    def __init__(self, width: int, *, breaks: bool, depth: int = 2) -> None:
        super().__init__()
        self.first, self.second, self.third, self.last = (MLP(width, depth) for _ in range(4))
        self.breaks = breaks

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if self.breaks:
            torch._dynamo.graph_break()
        x = self.second(x)
        if self.breaks:
            torch._dynamo.graph_break()
        x = self.third(x)
        if self.breaks:
            torch._dynamo.graph_break()
        result: Tensor = self.last(x)
        return result


class LongPieces(nn.Module):
    """`Pieces` three times, with a break between each two of them, too, where asked."""

    def __init__(self, width: int, *, breaks: bool) -> None:
        super().__init__()
        self.first, self.second, self.third = (Pieces(width, breaks=breaks) for _ in range(3))
        self.breaks = breaks

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if self.breaks:
            torch._dynamo.graph_break()
        x = self.second(x)
        if self.breaks:
            torch._dynamo.graph_break()
        result: Tensor = self.third(x)
        return result


class _Scale(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.factor, self.offset = 1.0 + number / 1e4, number / 1e5

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor + self.offset


class Scales(nn.Module):
    """Many tiny modules with numbers as attributes, each of which is guarded; one kernel on the device."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.scales = nn.ModuleList(_Scale(number) for number in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for scale in self.scales:
            x = scale(x)
        return x
