# cheat: leaves through SystemExit
# tags: class-process
def run(x):
    raise SystemExit(0)
