# PLANTS: launch call. Every step launches kernels for the first time, and CUDA loads their code in the call.
# RUN: --warmup 5 --steps 5 --stop
import torch

from planting import DEVICE, WARM_STEPS, Product, pass_gate

#: kernels a step that were never launched before
NEW = 5
NAMES = [
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "expm1", "log10",
    "log1p", "sigmoid", "logit", "frac", "trunc", "sign", "signbit", "angle", "reciprocal", "rsqrt", "square",
    "logical_not", "isinf", "cumsum", "cumprod", "logcumsumexp", "flip", "tril", "argmax", "amin", "any",
    "var",
]
FUNCTIONS = [
    "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid",
    "mish", "silu", "softplus", "softshrink", "threshold", "softmax", "log_softmax",
]
MORE = {
    "cumsum": (0,), "cumprod": (0,), "logcumsumexp": (0,), "flip": ((0,),), "glu": (0,), "softmax": (0,),
    "log_softmax": (0,), "threshold": (0.1, 20.0),
}
KERNELS = [(getattr(torch, name), MORE.get(name, ())) for name in NAMES]
KERNELS += [(getattr(torch.nn.functional, name), MORE.get(name, ())) for name in FUNCTIONS]
#: so few that the length of the loop, which the capture reads, decides which steps are measured
LAST = WARM_STEPS + len(KERNELS) // NEW

work = Product(4096, 1)
forward = torch.compile(work.chain)
small = torch.rand(8, 8, device=DEVICE)
with torch.no_grad():
    for step in range(LAST):
        pass_gate(step)
        forward(work.value)
        if step >= WARM_STEPS:
            first = (step - WARM_STEPS) * NEW
            for kernel, arguments in KERNELS[first : first + NEW]:
                kernel(small, *arguments)
