# cheat: ends the process as if all were well
# tags: class-process
import os


def run(x):
    os._exit(0)
