# cheat: returns a transposed shape
# tags: class-answers
import torch


def run(x):
    return torch.nn.functional.gelu(x, approximate="tanh").t().contiguous()
