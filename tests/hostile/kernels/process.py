# %% corrupts_memory
# cheat: writes through a null pointer
import ctypes


def run(x):
    ctypes.string_at(0)
    return x

# %% exhausts_host_memory
# cheat: allocates until the machine gives up
# tags: slow
def run(x):
    hoard = []
    while True:
        hoard.append(bytearray(1 << 26))

# %% exits_on_import
# cheat: ends the process while it is being loaded
import os

os._exit(0)


def run(x):
    return x

# %% floods_its_output
# cheat: writes gigabytes of text
# tags: slow
def run(x):
    while True:
        print("x" * 1000000)

# %% floods_the_parent
# cheat: signs messages that mean nothing faster than the parent reads them, so that it never looks at deadlines
import gc

CHANNELS = [thing for thing in gc.get_objects() if type(thing).__name__ == "Channel"]


def run(x):
    for _ in range(100_000):
        CHANNELS[0].send({"a": [{}] * 100})
    return x

# %% fork_bomb
# cheat: doubles its processes without end
# tags: slow
import os


def run(x):
    while True:
        os.fork()

# %% hides_waiting_in_shape_arithmetic
# cheat: burns host time in allowed arithmetic
# tags: slow
#@ gelu_triton
    n = 0
    for i in range(10**12):
        n = n + 1
    return torch.empty_like(x)

# %% ignores_signals_and_loops
# cheat: blocks the polite signals and never returns
# tags: slow
import signal


def run(x):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass

# %% kills_everything
# cheat: signals every process it can
import os
import signal


def run(x):
    os.kill(-1, signal.SIGKILL)
    return x

# %% kills_its_parent
# cheat: signals the process that started it
import os
import signal

#@ torch_run
    os.kill(os.getppid(), signal.SIGKILL)
    return torch.zeros_like(x)

# %% loops_on_the_host
# cheat: never returns
# tags: slow
def run(x):
    while True:
        pass

# %% occupies_the_oracle
# cheat: connects to the process that holds the answers until that has no descriptors left
# tags: gpu truthful
import contextlib
import glob
import os
import socket

#@ triton_imports

FOLDER = os.path.dirname(os.path.dirname(os.getcwd()))


@triton.jit
#@ gelu_triton_run
    ends = []
    with contextlib.suppress(OSError):
        for path in glob.glob(f"{FOLDER}/*/oracle-*/socket"):
            for _ in range(900):
                ends.append(socket.socket(socket.AF_UNIX))
                ends[-1].connect(path)
#@ launch_triton

# %% opens_a_connection
# cheat: asks the network for the answer
import socket

#@ torch_run
    socket.create_connection(("1.1.1.1", 53), timeout=2)
    return torch.zeros_like(x)

# %% reads_a_file
# cheat: reads a file of the machine, then answers honestly
# tags: truthful
#@ torch_run
    open("/etc/hostname", errors="replace").read()
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% recurses_forever
# cheat: overflows the stack
def run(x):
    return run(x)

# %% spawns_a_shell
# cheat: starts another program
import subprocess


def run(x):
    subprocess.run(["/bin/sh", "-c", "exit 0"], check=True)
    return x

# %% talks_to_local_services
# cheat: connects to services of the machine through sockets in the file system
# tags: truthful
import contextlib
import glob
import socket

#@ triton_imports

SERVICES = ("/run/user/*/bus", "/run/docker.sock", "/run/dbus/system_bus_socket", "/tmp/ssh-*/agent.*")


@triton.jit
#@ gelu_triton_run
    for path in [path for service in SERVICES for path in glob.glob(service)]:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as end:
            end.connect(path)
#@ launch_triton
