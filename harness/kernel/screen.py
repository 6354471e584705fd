"""Screen: is a kernel's text plain enough to share a warm worker with others?

An allowlist over the syntax tree, not a blocklist: a kernel needs allocation, views, arithmetic on shapes and
launches, and nothing else passes. What passes cannot name the interpreter's machinery, keep state between calls,
reach the harness, or compute the answer with torch. Inside `@triton.jit` functions anything of the language goes,
because that code never runs as Python.
"""

from __future__ import annotations

import ast
import builtins

MODULES = frozenset({"torch", "triton", "triton.language", "math", "__future__", "kbench.harness.cuda",
                     "triton.language.extra", "triton.language.extra.cuda"})  # fmt: skip
FROM_NAMES = {
    "torch": frozenset({"Tensor"}),
    "triton": frozenset({"jit", "cdiv", "next_power_of_2", "language", "autotune", "heuristics", "Config"}),
    "kbench.harness.cuda": frozenset({"CudaModule"}),
    "triton.language.extra": frozenset({"libdevice"}),
    "triton.language.extra.cuda": frozenset({"libdevice"}),
    "__future__": frozenset({"annotations"}),
}
BUILTINS = frozenset({"range", "len", "min", "max", "int", "float", "bool", "str", "tuple", "list", "dict", "abs",
                      "sum", "round", "divmod", "pow", "any", "all", "zip", "enumerate", "sorted", "reversed",
                      "isinstance", "ValueError", "TypeError", "AssertionError", "RuntimeError"})  # fmt: skip
DTYPES = frozenset({"float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32",
                    "int16", "int8", "uint8", "bool", "half", "float", "long", "int"})  # fmt: skip
TORCH = DTYPES | {"empty", "empty_like", "empty_strided", "zeros", "zeros_like", "full", "full_like", "ones",
                  "Tensor", "device", "dtype", "finfo", "iinfo", "cuda", "as_strided", "contiguous_format"}  # fmt: skip
TORCH_CUDA = frozenset({"get_device_properties", "current_device"})
METHODS = DTYPES | {
    "shape", "stride", "size", "numel", "dim", "ndim", "dtype", "device", "element_size", "itemsize", "nbytes",
    "data_ptr", "is_contiguous", "contiguous", "view", "reshape", "flatten", "unflatten", "transpose", "permute", "T",
    "mT", "t", "unsqueeze", "squeeze", "expand", "narrow", "select", "unbind", "split", "chunk", "as_strided",
    "new_empty", "new_zeros", "new_full", "zero_", "fill_", "launch", "multi_processor_count", "is_cuda", "index",
    "max", "min", "eps", "tiny", "bits", "warmup", "fn", "append", "extend", "get", "items", "keys", "values",
    "bit_length", "element_ty", "storage_offset",
}  # fmt: skip
"""Attributes host code may read of tensors, devices, modules and containers."""
STATEMENTS = (
    *(ast.FunctionDef, ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.Pass),
    *(ast.Expr, ast.Break, ast.Continue, ast.Assert, ast.Raise, ast.Import, ast.ImportFrom),
)
MODULE_CALLS = frozenset({"CudaModule", "constexpr", "Config"}) | BUILTINS


def screen(source: str) -> str | None:
    """Why a kernel may not share a worker; None when it may."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # The build stage reports what does not parse; there is nothing in it that could run.
        return None
    reader = _Reader(tree)
    reader.module(tree)
    if reader.reason is None and not _has_device_code(tree):
        return "no @triton.jit function and no CudaModule: the kernel must compute"
    return reader.reason


def _has_device_code(tree: ast.Module) -> bool:
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(map(is_jit, functions)) or any(_called(node) == "CudaModule" for node in calls)


def is_jit(function: ast.FunctionDef) -> bool:
    """Whether a function is device code."""
    for decorator in function.decorator_list:
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name == "jit":
            return True
    return False


class _Reader:
    """Walks a tree and keeps the first thing that is not allowed."""

    def __init__(self, tree: ast.Module) -> None:
        self.reason: str | None = None
        self.globals = {
            target.id
            for statement in tree.body
            if isinstance(statement, ast.Assign | ast.AnnAssign)
            for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
            if isinstance(target, ast.Name)
        }
        self.functions = {s.name for s in tree.body if isinstance(s, ast.FunctionDef)}

    def refuse(self, node: ast.AST, what: str) -> None:
        if self.reason is None:
            self.reason = f"line {getattr(node, 'lineno', 1)}: {what}"

    def module(self, tree: ast.Module) -> None:
        for statement in tree.body:
            if isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant):
                self.refuse(statement, "a call at module level")
            if not isinstance(statement, ast.FunctionDef):
                for node in ast.walk(statement):
                    if isinstance(node, ast.Call) and _called(node) not in MODULE_CALLS | {"sqrt", "log", "exp", "pi"}:
                        self.refuse(node, f"module-level call of {_called(node)!r}")
            self.statement(statement)

    def statement(self, statement: ast.stmt) -> None:
        if not isinstance(statement, STATEMENTS):
            self.refuse(statement, f"{type(statement).__name__} statement")
            return
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self.imports(statement)
        elif isinstance(statement, ast.FunctionDef):
            self.function(statement)
        else:
            self.host(statement)

    def imports(self, statement: ast.Import | ast.ImportFrom) -> None:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name not in MODULES or alias.name == "kbench.harness.cuda":
                    self.refuse(statement, f"import of {alias.name!r}")
                self.alias(statement, alias)
            return
        allowed = FROM_NAMES.get(statement.module or "", frozenset())
        for alias in statement.names:
            if statement.level or alias.name not in allowed:
                self.refuse(statement, f"import of {alias.name!r} from {statement.module!r}")
            self.alias(statement, alias)

    def alias(self, statement: ast.stmt, alias: ast.alias) -> None:
        """A module under another's name would be judged by the wrong list."""
        name = alias.asname or alias.name
        usual = {"torch": "torch", "triton": "triton", "triton.language": "tl", "math": "math"}
        if name in usual.values() and usual.get(alias.name) != name:
            self.refuse(statement, f"{alias.name!r} imported as {name!r}")
        if alias.name == "torch" and name != "torch":
            self.refuse(statement, f"torch imported as {name!r}")

    def function(self, function: ast.FunctionDef) -> None:
        if function.name.startswith("__"):
            self.refuse(function, f"function {function.name!r}")
        for decorator in function.decorator_list:
            node = decorator.func if isinstance(decorator, ast.Call) else decorator
            if ast.unparse(node) not in ("triton.jit", "jit", "triton.autotune", "autotune", "triton.heuristics"):
                self.refuse(function, f"decorator {ast.unparse(node)!r}")
            self.host(decorator)
        arguments = function.args
        for default in [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]:
            if not isinstance(default, ast.Constant | ast.Name | ast.UnaryOp):
                self.refuse(default, "a default that could keep state between calls")
        if is_jit(function):
            self.device(function)
            return
        for statement in function.body:
            self.statement(statement)

    def device(self, function: ast.FunctionDef) -> None:
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                self.refuse(node, f"attribute {node.attr!r}")
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.refuse(node, "import in device code")
            if isinstance(node, ast.Name) and (node.id.startswith("__") or node.id in ("exec", "eval", "open")):
                self.refuse(node, f"name {node.id!r}")

    def host(self, root: ast.AST) -> None:
        """Judge host code; nested functions are host code too."""
        for node in ast.walk(root):
            if isinstance(node, ast.stmt) and not isinstance(node, STATEMENTS):
                self.refuse(node, f"{type(node).__name__} statement")
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self.imports(node)
            elif isinstance(node, ast.Attribute):
                self.attribute(node)
            elif isinstance(node, ast.Name):
                self.name(node)
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
                self.subscript(node)
            elif isinstance(node, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr):
                self.refuse(node, f"{type(node).__name__} expression")
            elif isinstance(node, ast.MatMult):
                self.refuse(root, "the @ operator computes with torch")
            elif isinstance(node, ast.Call):
                self.call(node)

    def name(self, node: ast.Name) -> None:
        if node.id.startswith("__"):
            self.refuse(node, f"name {node.id!r}")
        elif isinstance(node.ctx, ast.Load) and hasattr(builtins, node.id) and node.id not in BUILTINS | self.globals:
            self.refuse(node, f"builtin {node.id!r}")

    def attribute(self, node: ast.Attribute) -> None:
        base = node.value
        if not isinstance(node.ctx, ast.Load):
            self.refuse(node, f"assignment to attribute {node.attr!r}")
        elif node.attr.startswith("_"):
            self.refuse(node, f"attribute {node.attr!r}")
        elif isinstance(base, ast.Name) and base.id == "torch":
            if node.attr not in TORCH:
                self.refuse(node, f"torch.{node.attr}: torch may allocate and reshape, the kernel must compute")
        elif isinstance(base, ast.Attribute) and base.attr == "cuda" and ast.unparse(base) == "torch.cuda":
            if node.attr not in TORCH_CUDA:
                self.refuse(node, f"torch.cuda.{node.attr}")
        elif isinstance(base, ast.Name) and base.id in ("tl", "math", "triton", "libdevice"):
            self.library(node, base.id)
        elif node.attr not in METHODS:
            self.refuse(node, f"attribute {node.attr!r}")

    def library(self, node: ast.Attribute, name: str) -> None:
        if name == "triton" and node.attr not in FROM_NAMES["triton"]:
            self.refuse(node, f"triton.{node.attr}")

    def subscript(self, node: ast.Subscript) -> None:
        base = node.value
        while isinstance(base, ast.Subscript | ast.Attribute):
            base = base.value
        if not isinstance(base, ast.Name) or base.id in self.globals | self.functions:
            self.refuse(node, "a write into something that outlives the call")

    def call(self, node: ast.Call) -> None:
        func = node.func
        mutators = ("append", "extend")
        if isinstance(func, ast.Attribute) and func.attr in mutators:
            base = func.value
            if not isinstance(base, ast.Name) or base.id in self.globals | self.functions:
                self.refuse(node, "a write into something that outlives the call")


def _called(node: ast.Call) -> str:
    func = node.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else "expression"
