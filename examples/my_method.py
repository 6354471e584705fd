"""A search method of your own: epsilon-greedy, a fifth of the candidates fresh, the rest changes of the best kernels.

`kbench generate --method examples/my_method.py` searches with it, and `kbench generate study shipped --methods
random,evolve,examples/my_method.py` compares it without a GPU.
"""

import random

from kbench import Method, Operator, ProposalRequest, RunState

FRESH = ProposalRequest(Operator.FRESH)
EPSILON = 0.2
"""Share of fresh candidates."""
ELITE = 4
"""Parents are drawn from so many of the fastest kernels."""


def plan(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """Fresh candidates with probability EPSILON, else a change of one of the best kernels."""
    elite = sorted(state.rewarded(), key=lambda node: node.reward or 0.0)[-ELITE:]
    return tuple(
        FRESH if not elite or rng.random() < EPSILON else ProposalRequest(Operator.MUTATE, rng.choice(elite).kernel_id)
        for _ in range(count)
    )


METHOD = Method("epsilon_greedy", plan)
