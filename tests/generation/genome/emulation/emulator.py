"""Runs CUDA kernels of genome families on the CPU: the C++ text is compiled by g++ against cuda_on_cpu.h."""

import ctypes
import hashlib
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbench.generation.proposers.genome.template import render

HEADER = Path(__file__).parent / "cuda_on_cpu.h"
INSTRUCTIONS = "dense/tiled_instructions.cu"
FUNCTION = re.compile(r'extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\(([^)]*)\)\s*{')


def translate(source: str) -> str:
    """C++ for the CPU: helpers that are single instructions give way to the header's."""
    chosen = ""
    for dtype in ("bfloat16", "float16", "float32", "int8"):
        text = render(f"{INSTRUCTIONS}#mma", {"operands": dtype})
        if text in source:
            source, chosen = source.replace(text, ""), dtype
    for name in ("cp_async", "ldmatrix", "tf32", "fp8_native"):
        source = source.replace(render(f"{INSTRUCTIONS}#{name}", {}), "")
    head = f'#include "{HEADER}"\n'
    head += f"#define multiply multiply_{chosen}\n" if chosen else ""
    head += "#define copy_async(to, from, inside) copy_later<COPY_BYTES>(to, from, inside)\n"
    source = re.sub(r"#include <.*>\n", "", source)
    source = re.sub(r"extern __shared__.*shared\[\];", "unsigned char* shared = dynamic_shared;", source)
    launchers = [_launcher(*match.groups()) for match in FUNCTION.finditer(source)]
    return head + source + "\n".join(launchers)


def _launcher(name: str, parameters: str) -> str:
    kinds = [parameter.rsplit(" ", 1)[0].strip() for parameter in parameters.split(",")]
    values = ", ".join(f"*({kind}*)args[{index}]" for index, kind in enumerate(kinds))
    return (
        f'\nextern "C" void launch_{name}(const int* grid, const int* block, int shared_bytes, void** args) {{\n'
        f"    body = [=] {{ {name}({values}); }};\n    run_grid(grid, block, shared_bytes);\n}}\n"
    )


class EmulatedModule:
    """Stands in for CudaModule with tensors in host memory."""

    folder: Path

    def __init__(self, source: str, **options: Any) -> None:
        text = translate(source)
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        library = self.folder / f"{name}.so"
        (self.folder / f"{name}.cpp").write_text(text)
        command = ["g++", "-std=c++17", "-O1", "-w", "-fno-strict-aliasing", "-fPIC", "-shared"]
        subprocess.run([*command, str(self.folder / f"{name}.cpp"), "-o", str(library)], check=True)
        self._library = ctypes.CDLL(str(library))

    def launch(self, name: str, grid: Any, block: Any, args: Sequence[Any], *, shared_bytes: int = 0) -> None:
        """Run a function of this module over a grid."""
        held = [_argument(value) for value in args]
        pointers = (ctypes.c_void_p * len(held))(*(ctypes.addressof(value) for value in held))
        self._library[f"launch_{name}"](_extent(grid), _extent(block), shared_bytes, pointers)


def _extent(value: Any) -> Any:
    parts = value if isinstance(value, tuple) else (value,)
    return (ctypes.c_int * 3)(*(*parts, 1, 1)[:3])


def _argument(value: Any) -> Any:
    if hasattr(value, "data_ptr"):
        return ctypes.c_void_p(value.data_ptr())
    return ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int64(value)


def load(source: str, folder: Path) -> Any:
    """The `run` function of a CUDA kernel's text, on the CPU."""
    EmulatedModule.folder = folder
    namespace: dict[str, Any] = {"CudaModule": EmulatedModule}
    body = source.replace("from kbench.harness.cuda import CudaModule\n", "")
    exec(compile(body, "<kernel>", "exec"), namespace)
    return namespace["run"]
