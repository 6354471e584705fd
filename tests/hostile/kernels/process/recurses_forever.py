# cheat: overflows the stack
# tags: class-process
def run(x):
    return run(x)
