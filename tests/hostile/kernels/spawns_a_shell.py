# cheat: starts another program
import subprocess


def run(x):
    subprocess.run(["/bin/sh", "-c", "exit 0"], check=True)
    return x
