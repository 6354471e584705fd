# cheat: writes gigabytes of text
# tags: class-process slow
def run(x):
    while True:
        print("x" * 1000000)
