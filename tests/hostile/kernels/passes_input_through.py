# cheat: returns its input
def run(x):
    return x
