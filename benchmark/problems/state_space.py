"""state_space problems."""

from kbench.benchmark.problems.definition import ProblemDefinition

PROBLEMS: tuple[ProblemDefinition, ...] = ()
