# cheat: writes through a null pointer
import ctypes


def run(x):
    ctypes.string_at(0)
    return x
