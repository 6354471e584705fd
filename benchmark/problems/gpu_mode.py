"""gpu_mode problems."""

from kbench.benchmark.problems.definition import ProblemDefinition

PROBLEMS: tuple[ProblemDefinition, ...] = ()
