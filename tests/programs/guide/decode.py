"""A small transformer decodes with batch 1 in CUDA graphs, in a plain loop without any marker."""

import torch


class Block(torch.nn.Module):
    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.mix, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.feed = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        q, k, v = self.mix(self.before(x)).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, time, width))
        return x + self.feed(self.after(x))


blocks = [Block() for _ in range(6)]
model = torch.nn.Sequential(torch.nn.Embedding(2048, 256), *blocks, torch.nn.Linear(256, 2048))
model = model.cuda().half().eval()
tokens = torch.randint(0, 2048, (1, 64), device="cuda")
compiled = torch.compile(model, mode="reduce-overhead")
with torch.no_grad():
    for _ in range(200):
        compiled(tokens).argmax(-1)
torch.cuda.synchronize()
print("decoded")
