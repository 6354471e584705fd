# cheat: leaves through an exception that is not an Exception
def run(x):
    raise KeyboardInterrupt
