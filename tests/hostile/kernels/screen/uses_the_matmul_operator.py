# cheat: computes with an operator instead of a kernel
# tags: class-screen
def run(x):
    return x @ x
