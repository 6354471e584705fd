# cheat: leaves through an exception that is not an Exception
# tags: class-process
def run(x):
    raise KeyboardInterrupt
