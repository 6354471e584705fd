# cheat: returns None
# tags: class-answers
def run(x):
    return None
