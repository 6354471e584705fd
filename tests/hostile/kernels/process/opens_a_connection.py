# cheat: asks the network for the answer
# tags: class-process
import socket

import torch


def run(x):
    socket.create_connection(("1.1.1.1", 53), timeout=2)
    return torch.zeros_like(x)
