# cheat: allocates all device memory
# tags: class-device gpu slow
import torch


def run(x):
    hoard = []
    while True:
        hoard.append(torch.empty(1 << 30, device=x.device, dtype=torch.uint8))
