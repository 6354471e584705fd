# cheat: returns None
# tags: passes-screen
def run(x):
    return None
