"""Adapters: kernels in the forms other suites publish, unchanged.

    KernelBench   class ModelNew(nn.Module) with forward(*inputs); get_init_inputs() when its constructor needs any,
                  in the text or in the file of the problem
    GPU MODE      def custom_kernel(data) with the data laid out as the task has it
                  def cross_entropy_forward(logits, targets) and cross_entropy_backward(logits, targets, grad_output),
                  which is what the task of cross entropy asks for instead

What GPU MODE's tasks hand over, and how it comes from our inputs:

    trimul                  (input, mask, weights by name, {"hidden_dim", "dim"}); the mask is float32, which the task
                            has where nothing is masked (else int64), so that kernels take it
    cross_entropy_fwd_bwd   (logits, targets, grad_output), our inputs; returns (losses, grad_logits)
    gdn_chunk_fwd_h         (k, w, u, g), our inputs; returns (h, v_new). A first version of the task had an initial
                            state as a fifth; its kernels fail when they unpack four
    gdn_chunk_fwd_o         (q, k, v_new, h, g), our inputs; returns o
    gdn_recompute_w_u       (k, v, beta, A, g), our inputs; returns (w, u)
    fp8_quant_float32       (x, x_q, x_s), the last two buffers to be filled, fresh in every call as what other kernels
                            allocate for their outputs; returns (x_q, x_s)

The last is the task that GPU MODE calls fp8_quant. Ours of that name reads bfloat16 and rounds to float8, which moves 3
bytes per value instead of 8, and conversions around the kernel would move another 11: a custom_kernel for it is
measured as the other problem, and the record says so.

Nothing that is returned is converted: the tasks' checks do not look at strides and mostly not at types, ours do.

Such texts are planned like any other. One that keeps state or compiles a torch extension cannot be planned: it runs
only with --allow-unscreened, not screened, alone in a fresh process, and its record says trust = "process".
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from kbench.benchmark.problems.registry import users
from kbench.schemas import UserError

MODEL, CUSTOM = "ModelNew", "custom_kernel"
FORWARD, BACKWARD = "cross_entropy_forward", "cross_entropy_backward"
CROSS_ENTROPY = "cross_entropy_fwd_bwd"
TRIMUL_WEIGHTS = (
    "norm.weight", "norm.bias", "left_proj.weight", "right_proj.weight", "left_gate.weight", "right_gate.weight",
    "out_gate.weight", "to_out_norm.weight", "to_out_norm.bias", "to_out.weight",
)  # fmt: skip
"""What the task calls our inputs from the third on."""


def _trimul_data(inputs: tuple[Any, ...]) -> Any:
    x, mask, *weights = inputs
    config = {"hidden_dim": weights[2].shape[0], "dim": x.shape[-1]}
    return x, mask, dict(zip(TRIMUL_WEIGHTS, weights, strict=True)), config


def _fp8_quant_data(inputs: tuple[Any, ...]) -> Any:
    x, group = inputs
    tokens, hidden = x.shape
    return x, x.new_empty((tokens, hidden)), x.new_empty((tokens, hidden // group))


LAYOUTS: Mapping[str, Callable[[tuple[Any, ...]], Any]] = {
    "trimul": _trimul_data,
    CROSS_ENTROPY: tuple,
    "gdn_chunk_fwd_h": tuple,
    "gdn_chunk_fwd_o": tuple,
    "gdn_recompute_w_u": tuple,
    "fp8_quant_float32": _fp8_quant_data,
}
"""How the data of a task is made from our inputs. Problems that are not GPU MODE tasks pass theirs as one tuple."""

NAMESAKES: Mapping[str, str] = {"fp8_quant": "fp8_quant_float32"}
"""Our problems whose name GPU MODE uses for another problem, with that problem."""


def problem_of(source: str, problem_id: str) -> str:
    """The problem that a text labelled with this name solves: the namesake, where its form shows that."""
    namesake = NAMESAKES.get(problem_id)
    return namesake if namesake is not None and adapter_for(source) == CUSTOM else problem_id


def refusal(form: str | None, problem_id: str) -> str | None:
    """Why a text of this published form says nothing about our problem; None when it may be measured."""
    if form != CUSTOM or problem_id not in NAMESAKES:
        return None
    return (
        f"custom_kernel solves GPU MODE's {problem_id}, which is {NAMESAKES[problem_id]} here and another problem than"
        f" our {problem_id}; measure it as that, or define run"
    )


def adapter_for(source: str) -> str | None:
    """Which published form a text has, by the name that shows it; None for our own or for none."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names = {name for statement in tree.body for name in defined(statement)}
    if "run" in names:
        return None
    if BACKWARD not in names:
        names.discard(FORWARD)
    return next((form for form in (MODEL, CUSTOM, FORWARD) if form in names), None)


def defined(statement: ast.stmt) -> list[str]:
    """Names a statement gives to a class, a function, or what a call such as torch.compile made of one."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return []


def adapt(namespace: Mapping[str, Any], problem_id: str = "") -> Callable[..., Any] | None:
    """A `run` function over what a module defines; None when it has no known form.

    Raises:
        UserError: the kernel solves another problem than ours.
    """
    if callable(namespace.get(MODEL)):
        given = users().get(problem_id)
        stated = given.init_inputs if given is not None else None
        return ModelRunner(namespace[MODEL], namespace.get("get_init_inputs") or stated, of_state=given is not None)
    custom = namespace.get(CUSTOM)
    if callable(custom):
        refused = refusal(CUSTOM, problem_id)
        if refused is not None:
            raise UserError(refused)
        layout = LAYOUTS.get(problem_id, tuple)
        return lambda *inputs: custom(layout(inputs))
    forward, backward = namespace.get(FORWARD), namespace.get(BACKWARD)
    if callable(forward) and callable(backward) and problem_id == CROSS_ENTROPY:
        # The task times one after the other, and a backward pass may use what the forward pass kept.
        return lambda logits, targets, grad: (forward(logits, targets), backward(logits, targets, grad))
    return None


class ModelRunner:
    """Calls a KernelBench model.

    Its problem here passes weights as inputs where the model owns them as parameters; inputs beyond what `forward`
    takes become the model's parameters and buffers, in order, without a copy.
    """

    def __init__(
        self, model: Callable[..., Any], init_inputs: Callable[[], Any] | None, *, of_state: bool = False
    ) -> None:
        """Keep the class; the model is made at the first call, on the inputs' device.

        Args:
            model: the class.
            init_inputs: makes what it is constructed with.
            of_state: weights come in the order of the state dict; else parameters come before buffers.
        """
        self._make, self._init_inputs, self._of_state = model, init_inputs, of_state
        self._model: Any = None
        self._taken = 0

    def __call__(self, *inputs: Any) -> Any:
        if self._model is None:
            self._model = self._create(inputs)
        for holder, value in zip(self._weights, inputs[self._taken :], strict=True):
            holder.data = value
        return self._model(*inputs[: self._taken])

    def _create(self, inputs: tuple[Any, ...]) -> Any:
        device = next((value.device for value in inputs if hasattr(value, "device")), None)
        arguments = self._init_inputs() if self._init_inputs is not None else ()
        model = self._make(**arguments) if isinstance(arguments, Mapping) else self._make(*arguments)
        model = model.to(device).eval()
        parameters = inspect.signature(model.forward).parameters.values()
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        many = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        self._taken = len(inputs) if many else min(len(positional), len(inputs))
        self._weights = []
        if self._taken < len(inputs):
            state = model.state_dict(keep_vars=True).values() if self._of_state else ()
            self._weights = [*state] or [*model.parameters(), *model.buffers()]
            own, given = (
                [tuple(getattr(one, "shape", ())) for one in some] for some in (self._weights, inputs[self._taken :])
            )
            if self._of_state and own != given:
                raise ValueError(f"{MODEL}'s weights have the shapes {own}, the problem's {given}, in this order")
        return model
