"""A compiled resnet18 trains for three profiled steps after a warm-up; it runs the profiler itself."""

import torch
from torch.profiler import profile
from torchvision.models import resnet18

model = resnet18().to("cuda")
inputs = [torch.randn(5, 3, 224, 224, device="cuda") for _ in range(10)]
compiled = torch.compile(model)


def step(batch: torch.Tensor) -> None:
    compiled(batch).sum().backward()


step(inputs[0])
step(inputs[1])
with profile() as prof:
    for batch in inputs[1:4]:
        step(batch)
        prof.step()
prof.export_chrome_trace("trace.json")
