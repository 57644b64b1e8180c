"""Four blocks with a break between each two; three profiled steps after a warm-up."""

import torch
from torch.profiler import profile


def block() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(128, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128), torch.nn.ReLU()
    )


class Broken(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third, self.fourth = block(), block(), block(), block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        torch._dynamo.graph_break()  # BREAK
        x = self.second(x)
        torch._dynamo.graph_break()  # BREAK
        x = self.third(x)
        torch._dynamo.graph_break()  # BREAK
        return self.fourth(x)


model = Broken().to("cuda")
inputs = [torch.randn(128, 128, device="cuda") for _ in range(10)]
compiled = torch.compile(model)


def step(batch: torch.Tensor) -> None:
    compiled(batch).sum().backward()


step(inputs[0])
step(inputs[1])
with profile() as prof:
    for batch in inputs[1:4]:
        step(batch)
        prof.step()
prof.export_chrome_trace("trace_break.json")
