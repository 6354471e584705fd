# cheat: climbs from a literal to the interpreter
# tags: class-screen
def run(x):
    for kind in ().__class__.__base__.__subclasses__():
        if kind.__name__ == "_wrap_close":
            kind.__init__.__globals__["sys"].modules["os"]._exit(0)
    return x
