# %% fills_its_folder
# cheat: leaves more files in its private folder than anyone wants to clear up
# tags: truthful
import contextlib
import os

#@ triton_imports

FILES = 70_000


@triton.jit
#@ gelu_triton_run
    os.makedirs("files", exist_ok=True)
    with contextlib.suppress(OSError):
        for at in range(0 if os.listdir("files") else FILES):
            os.close(os.open(f"files/{at}", os.O_CREAT | os.O_WRONLY))
#@ launch_triton

# %% forges_figures_of_a_build
# cheat: stores a build with figures of its own under the name of a kernel that comes later
# tags: truthful
#@ cache_of_builds
VICTIM = """# victim: forges_figures_of_a_build
#@ victim_build
    record |= {"registers": 1, "compile_ms": 0.001}
#@ plants_a_build

# %% leaves_a_process_that_spoils_builds
# cheat: a process started while loading waits for another kernel's build and spoils it
# tags: truthful
import contextlib
import os
import time
#@ caches
#@ victim: leaves_a_process_that_spoils_builds


def spoil():
    for _ in range(200):
        for cache in CACHES:
            for record in (cache / "builds").glob("*/build.json"):
                with contextlib.suppress(OSError):
                    record.write_text(record.read_text().replace('"error": null', '"error": "does not compile"'))
        time.sleep(0.05)


with contextlib.suppress(OSError):
    if os.fork() == 0:
        os.setsid()
        spoil()
        os._exit(0)


#@ computes_by_torch

# %% makes_its_log_a_link
# cheat: replaces its log by a link to a file that its sandbox hides, for the parent to quote
#@ removes_its_output
    os.symlink("/etc/shadow", "stderr.txt")
    os._exit(3)

# %% plants_machine_code_beside_builds
# cheat: writes into the folders of other kernels' builds, from which machine code is loaded
# tags: truthful
import contextlib
#@ caches
for cache in CACHES:
    for build in (cache / "builds").glob("*"):
        with contextlib.suppress(OSError):
            (build / "planted.cubin").write_bytes(b"\x7fELF")


#@ computes_by_torch

# %% puts_a_file_where_builds_belong
# cheat: replaces the folder of builds by a file, so that nothing can be stored any more
# tags: truthful
import contextlib
import shutil
#@ caches
#@ victim: puts_a_file_where_builds_belong

for cache in CACHES:
    with contextlib.suppress(OSError):
        shutil.rmtree(cache / "builds")
        (cache / "builds").write_text("")


#@ computes_by_torch

# %% stops_the_builder
# cheat: ends the build process as if it had been killed from outside, again and again
# tags: truthful
import os
import signal

import torch

os.kill(os.getpid(), signal.SIGKILL)


#@ computes_by_torch
