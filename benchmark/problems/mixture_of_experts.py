"""mixture_of_experts problems."""

from kbench.benchmark.problems.definition import ProblemDefinition

PROBLEMS: tuple[ProblemDefinition, ...] = ()
