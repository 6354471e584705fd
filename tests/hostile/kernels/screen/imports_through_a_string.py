# cheat: reaches a module by its name
# tags: class-screen
import torch


def run(x):
    __import__("o" + "s")._exit(0)
