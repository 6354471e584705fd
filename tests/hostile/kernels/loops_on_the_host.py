# cheat: never returns
# tags: passes-screen slow
def run(x):
    while True:
        pass
