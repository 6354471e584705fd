# %% corrupts_memory
# cheat: writes through a null pointer
# tags: class-process
import ctypes


def run(x):
    ctypes.string_at(0)
    return x


# %% exhausts_host_memory
# cheat: allocates until the machine gives up
# tags: class-process slow
def run(x):
    hoard = []
    while True:
        hoard.append(bytearray(1 << 26))


# %% exits_on_import
# cheat: ends the process while it is being loaded
# tags: class-process
import os

os._exit(0)


def run(x):
    return x


# %% exits_with_success
# cheat: ends the process as if all were well
# tags: class-process
import os


def run(x):
    os._exit(0)


# %% floods_its_output
# cheat: writes gigabytes of text
# tags: class-process slow
def run(x):
    while True:
        print("x" * 1000000)


# %% floods_the_parent
# cheat: signs messages that mean nothing faster than the parent reads them, so that it never looks at deadlines
# tags: class-process
import gc

CHANNELS = [thing for thing in gc.get_objects() if type(thing).__name__ == "Channel"]


def run(x):
    for _ in range(100_000):
        CHANNELS[0].send({"a": [{}] * 100})
    return x


# %% fork_bomb
# cheat: doubles its processes without end
# tags: class-process slow
import os


def run(x):
    while True:
        os.fork()


# %% hides_waiting_in_shape_arithmetic
# cheat: burns host time in allowed arithmetic
# tags: class-process slow
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    n = 0
    for i in range(10**12):
        n = n + 1
    return torch.empty_like(x)


# %% ignores_signals_and_loops
# cheat: blocks the polite signals and never returns
# tags: class-process slow
import signal


def run(x):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass


# %% kills_everything
# cheat: signals every process it can
# tags: class-process
import os
import signal


def run(x):
    os.kill(-1, signal.SIGKILL)
    return x


# %% kills_its_parent
# cheat: signals the process that started it
# tags: class-process
import os
import signal

import torch


def run(x):
    os.kill(os.getppid(), signal.SIGKILL)
    return torch.zeros_like(x)


# %% kills_itself
# cheat: dies by a signal
# tags: class-process
import os
import signal


def run(x):
    os.kill(os.getpid(), signal.SIGSEGV)
    return x


# %% loops_on_the_host
# cheat: never returns
# tags: class-process slow
def run(x):
    while True:
        pass


# %% loops_on_the_host_behind_a_kernel
# cheat: looks like a kernel and never returns
# tags: class-process slow
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    while True:
        pass


# %% occupies_the_oracle
# cheat: connects to the process that holds the answers until that has no descriptors left
# tags: class-process gpu truthful
import contextlib
import glob
import os
import socket

import torch
import triton
import triton.language as tl

FOLDER = os.path.dirname(os.path.dirname(os.getcwd()))


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    ends = []
    with contextlib.suppress(OSError):
        for path in glob.glob(f"{FOLDER}/*/oracle-*/socket"):
            for _ in range(900):
                ends.append(socket.socket(socket.AF_UNIX))
                ends[-1].connect(path)
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y


# %% opens_a_connection
# cheat: asks the network for the answer
# tags: class-process
import socket

import torch


def run(x):
    socket.create_connection(("1.1.1.1", 53), timeout=2)
    return torch.zeros_like(x)


# %% raises_keyboard_interrupt
# cheat: leaves through an exception that is not an Exception
# tags: class-process
def run(x):
    raise KeyboardInterrupt


# %% raises_system_exit
# cheat: leaves through SystemExit
# tags: class-process
def run(x):
    raise SystemExit(0)


# %% reads_a_file
# cheat: reads a file of the machine, then answers honestly
# tags: class-process truthful
import torch


def run(x):
    open("/etc/hostname", errors="replace").read()
    return torch.nn.functional.gelu(x, approximate="tanh")


# %% recurses_forever
# cheat: overflows the stack
# tags: class-process
def run(x):
    return run(x)


# %% sleeps
# cheat: waits longer than anybody will
# tags: class-process slow
import time


def run(x):
    time.sleep(1e6)


# %% spawns_a_shell
# cheat: starts another program
# tags: class-process
import subprocess


def run(x):
    subprocess.run(["/bin/sh", "-c", "exit 0"], check=True)
    return x


# %% talks_to_local_services
# cheat: connects to services of the machine through sockets in the file system
# tags: class-process truthful
import contextlib
import glob
import socket

import torch
import triton
import triton.language as tl

SERVICES = ("/run/user/*/bus", "/run/docker.sock", "/run/dbus/system_bus_socket", "/tmp/ssh-*/agent.*")


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    for path in [path for service in SERVICES for path in glob.glob(service)]:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as end:
            end.connect(path)
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y
