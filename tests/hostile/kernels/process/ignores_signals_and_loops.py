# cheat: blocks the polite signals and never returns
# tags: class-process slow
import signal


def run(x):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass
