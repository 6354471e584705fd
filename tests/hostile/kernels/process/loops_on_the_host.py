# cheat: never returns
# tags: class-process slow
def run(x):
    while True:
        pass
