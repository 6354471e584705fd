# cheat: returns its input
# tags: class-answers
def run(x):
    return x
