# cheat: overflows the stack
def run(x):
    return run(x)
