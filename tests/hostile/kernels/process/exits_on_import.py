# cheat: ends the process while it is being loaded
# tags: class-process
import os

os._exit(0)


def run(x):
    return x
