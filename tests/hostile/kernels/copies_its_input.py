# cheat: returns a copy of its input
import torch


def run(x):
    return x.clone()
