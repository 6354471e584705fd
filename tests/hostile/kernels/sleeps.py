# cheat: waits longer than anybody will
# tags: slow
import time


def run(x):
    time.sleep(1e6)
