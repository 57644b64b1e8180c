"""What the planted programs share: the device, long work for it, a host that is busy, and the gate."""
import os
import time

import torch

DEVICE = os.environ.get("PLANTED_DEVICE", "cuda")
IS_CUDA = DEVICE == "cuda"
#: steps before the gate: compilation and the first use of everything are over
WARM_STEPS = 4
#: more than are ever measured: a run with ``--stop`` ends earlier
STEPS = 200
_GATE_SECONDS = 600
_CLOCK_SECONDS = 0.3


class Product:
    """Long work for the device that takes the host next to nothing: a chain of matrix products."""

    def __init__(self, size=8192, products=3):
        size = size if IS_CUDA else 128
        dtype = torch.bfloat16 if IS_CUDA else torch.float32
        # scaled so that a chain of products neither grows nor vanishes
        self.weight = torch.randn(size, size, device=DEVICE, dtype=dtype) / size**0.5
        self.value = torch.randn(size, size, device=DEVICE, dtype=dtype)
        self.products = products

    def chain(self, value):
        for _ in range(self.products):
            value = value @ self.weight
        return value


def spin(seconds):
    """Keep the host busy with Python and nothing else."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def pass_gate(step, is_leader=True):
    """Say that the program is warm and wait until it may go on; then raise the clocks of the device."""
    gate = os.environ.get("PLANTED_GATE")
    if step != WARM_STEPS or not gate:
        return
    if is_leader:
        with open(f"{gate}.ready", "w"):
            pass
    end = time.monotonic() + _GATE_SECONDS
    while not os.path.exists(f"{gate}.go"):
        if time.monotonic() > end:
            raise TimeoutError(f"{gate}.go did not come")
        time.sleep(0.01)
    if IS_CUDA:
        value = torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16)
        end = time.monotonic() + _CLOCK_SECONDS
        while time.monotonic() < end:
            for _ in range(10):
                torch.mm(value, value)
            torch.cuda.synchronize()
