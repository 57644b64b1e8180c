# PLANTS: data loading. Two workers make the batches, and are too slow together.
# RUN: --warmup 8 --steps 12 --stop
import time

import torch

from planting import DEVICE, STEPS, Product, pass_gate


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        time.sleep(0.020)
        return torch.full((1,), float(index))


work = Product(8192, 3)


@torch.compile
def forward(value, offset):
    return work.chain(value + offset)


with torch.no_grad():
    loader = torch.utils.data.DataLoader(Slow(), batch_size=1, num_workers=2)
    for step, batch in enumerate(loader):
        pass_gate(step)
        forward(work.value, batch.to(DEVICE, work.value.dtype, non_blocking=True))
