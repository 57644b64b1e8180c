"""The first call of a compiled resnet18 is profiled, after a small compile that starts what is lazy."""

import torch
from torch.profiler import profile, record_function
from torchvision.models import resnet18

model = resnet18().to("cuda")
batch = torch.randn(5, 3, 224, 224, device="cuda")
compiled = torch.compile(model)
small = torch.compile(lambda x: x.sin().relu())

with profile() as prof:
    with record_function("warm-up compile"):
        small(torch.rand(2, 2, device="cuda", requires_grad=True)).sum().backward()
    with record_function("resnet18 compile"):
        compiled(batch).sum().backward()
prof.export_chrome_trace("trace_compile.json")
print(torch._dynamo.utils.compile_times())
