# cheat: waits longer than anybody will
# tags: class-process slow
import time


def run(x):
    time.sleep(1e6)
