# cheat: returns a view of its input
# tags: class-answers
def run(x):
    return x.view(x.shape)
