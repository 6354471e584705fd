"""The problems: operations with a PyTorch reference, sizes, tolerances and counted work."""

from kbench.benchmark.problems.adversarial.cases import InputCase
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import ScalarSpec, TensorSpec
from kbench.benchmark.problems.registry import named, problem, problems

__all__ = [
    "InputCase",
    "ProblemDefinition",
    "ScalarSpec",
    "Size",
    "TensorSpec",
    "Tolerance",
    "named",
    "problem",
    "problems",
]
