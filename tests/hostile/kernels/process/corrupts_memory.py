# cheat: writes through a null pointer
# tags: class-process
import ctypes


def run(x):
    ctypes.string_at(0)
    return x
