# cheat: never returns
# tags: slow
def run(x):
    while True:
        pass
