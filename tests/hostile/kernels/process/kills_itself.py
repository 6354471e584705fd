# cheat: dies by a signal
# tags: class-process
import os
import signal


def run(x):
    os.kill(os.getpid(), signal.SIGSEGV)
    return x
