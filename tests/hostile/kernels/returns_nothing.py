# cheat: returns None
def run(x):
    return None
