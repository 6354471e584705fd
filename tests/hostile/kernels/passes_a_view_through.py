# cheat: returns a view of its input
def run(x):
    return x.view(x.shape)
