# cheat: starts another program
# tags: class-process
import subprocess


def run(x):
    subprocess.run(["/bin/sh", "-c", "exit 0"], check=True)
    return x
