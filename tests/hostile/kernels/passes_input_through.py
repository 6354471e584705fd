# cheat: returns its input
# tags: passes-screen
def run(x):
    return x
