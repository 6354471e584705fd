# cheat: allocates until the machine gives up
# tags: class-process slow
def run(x):
    hoard = []
    while True:
        hoard.append(bytearray(1 << 26))
