# cheat: returns a copy of its input
# tags: class-answers
import torch


def run(x):
    return x.clone()
