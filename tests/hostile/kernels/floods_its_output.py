# cheat: writes gigabytes of text
# tags: slow
def run(x):
    while True:
        print("x" * 1000000)
