# cheat: overflows the stack
# tags: passes-screen
def run(x):
    return run(x)
