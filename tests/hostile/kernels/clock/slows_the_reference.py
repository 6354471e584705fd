# cheat: leaves copies running beside whatever comes after its own work, which is often the reference
# tags: class-clock gpu
import torch

side = torch.cuda.Stream()
junk = torch.empty(2, 64 << 20, device="cuda")


def run(x):
    y = torch.nn.functional.gelu(x, approximate="tanh")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            junk[1].copy_(junk[0])
    return y
