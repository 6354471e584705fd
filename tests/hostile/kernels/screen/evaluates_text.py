# cheat: runs code from a string
# tags: class-screen
def run(x):
    return eval("__import__('os')._exit(0)")
