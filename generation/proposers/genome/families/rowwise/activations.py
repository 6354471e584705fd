"""Ways to write each activation in Triton and in CUDA C++, as bodies of a function of one float `v`.

Every form keeps the error below the problems' tolerance (1e-6 absolute, 1e-5 relative); hardware tanh does not.
"""

from __future__ import annotations

from collections.abc import Mapping

Forms = Mapping[str, str]

_TRITON_INNER = "u = 1.5957691216057308 * (v + 0.044715 * v * v * v)\n"
_TRITON_ERF = (
    "z = tl.abs(v) * 0.7071067811865476\n"
    "t = 1.0 / (1.0 + 0.3275911 * z)\n"
    "p = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t\n"
    "e = 1.0 - p * tl.exp(-z * z)\n"
    "return 0.5 * v * (1.0 + tl.where(v < 0.0, -e, e))"
)

TRITON: Mapping[str, Forms] = {
    "relu": {
        "maximum": "return tl.maximum(v, 0.0)",
        "select": "return tl.where(v > 0.0, v, 0.0)",
        "halves": "return 0.5 * (v + tl.abs(v))",
    },
    "sigmoid": {
        "divide": "return 1.0 / (1.0 + tl.exp(-v))",
        "library": "return tl.sigmoid(v)",
        "base2": "return 1.0 / (1.0 + tl.exp2(v * -1.4426950408889634))",
        "stable": "e = tl.exp(-tl.abs(v))\nreturn tl.where(v > 0.0, 1.0, e) / (1.0 + e)",
    },
    "tanh": {
        "shifted": "return 2.0 / (1.0 + tl.exp(-2.0 * v)) - 1.0",
        "library": "return 2.0 * tl.sigmoid(2.0 * v) - 1.0",
        "ratio": "e = tl.exp(-2.0 * tl.abs(v))\nr = (1.0 - e) / (1.0 + e)\nreturn tl.where(v < 0.0, -r, r)",
        "base2": "return 1.0 - 2.0 / (1.0 + tl.exp2(v * 2.8853900817779268))",
    },
    "swish": {
        "divide": "return v / (1.0 + tl.exp(-v))",
        "library": "return v * tl.sigmoid(v)",
        "base2": "return v / (1.0 + tl.exp2(v * -1.4426950408889634))",
    },
    "gelu": {
        "erf": "return 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))",
        "polynomial": _TRITON_ERF,
        "split": "h = 0.5 * v\nreturn h + h * tl.erf(v * 0.7071067811865476)",
    },
    "gelu_tanh": {
        "logistic": _TRITON_INNER + "return v / (1.0 + tl.exp(-u))",
        "library": _TRITON_INNER + "return v * tl.sigmoid(u)",
        "tanh": _TRITON_INNER + "t = 1.0 - 2.0 / (1.0 + tl.exp(u))\nreturn 0.5 * v * (1.0 + t)",
        "factored": "q = v * v\nu = v * (1.5957691216057308 + 0.07135481282 * q)\nreturn v / (1.0 + tl.exp(-u))",
    },
    "softplus": {
        "plain": "return tl.where(v > 20.0, v, tl.log(1.0 + tl.exp(v)))",
        "stable": "return tl.maximum(v, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(v)))",
        "base2": "e = tl.exp2(v * 1.4426950408889634)\n"
        "return tl.where(v > 20.0, v, tl.log2(1.0 + e) * 0.6931471805599453)",
    },
    "softsign": {
        "divide": "return v / (1.0 + tl.abs(v))",
        "reciprocal": "return v * (1.0 / (1.0 + tl.abs(v)))",
        "select": "return v / tl.where(v < 0.0, 1.0 - v, 1.0 + v)",
    },
    "elu": {
        "select": "return tl.where(v > 0.0, v, tl.exp(v) - 1.0)",
        "clamped": "return tl.maximum(v, 0.0) + tl.exp(tl.minimum(v, 0.0)) - 1.0",
        "base2": "return tl.where(v > 0.0, v, tl.exp2(v * 1.4426950408889634) - 1.0)",
    },
}

_CUDA_INNER = "float u = 1.5957691216057308f * (v + 0.044715f * v * v * v);\n"

CUDA: Mapping[str, Forms] = {
    "relu": {
        "maximum": "return fmaxf(v, 0.0f);",
        "select": "return v > 0.0f ? v : 0.0f;",
        "halves": "return 0.5f * (v + fabsf(v));",
    },
    "sigmoid": {
        "precise": "return 1.0f / (1.0f + expf(-v));",
        "fast": "return __fdividef(1.0f, 1.0f + __expf(-v));",
        "reciprocal": "return __frcp_rn(1.0f + exp2f(v * -1.44269504f));",
    },
    "tanh": {
        "library": "return tanhf(v);",
        "fast": "return __fdividef(2.0f, 1.0f + __expf(-2.0f * v)) - 1.0f;",
        "ratio": "float e = __expf(-2.0f * fabsf(v));\nreturn copysignf((1.0f - e) / (1.0f + e), v);",
    },
    "swish": {
        "precise": "return v / (1.0f + expf(-v));",
        "fast": "return __fdividef(v, 1.0f + __expf(-v));",
        "reciprocal": "return v * __frcp_rn(1.0f + exp2f(v * -1.44269504f));",
    },
    "gelu": {
        "erf": "return 0.5f * v * (1.0f + erff(v * 0.70710678f));",
        "normal": "return v * normcdff(v);",
        "polynomial": (
            "float z = fabsf(v) * 0.70710678f;\n"
            "float t = __fdividef(1.0f, 1.0f + 0.3275911f * z);\n"
            "float p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t"
            " + 0.254829592f) * t;\n"
            "float e = 1.0f - p * __expf(-z * z);\n"
            "return 0.5f * v * (1.0f + copysignf(e, v));"
        ),
    },
    "gelu_tanh": {
        "tanh": "float u = 0.79788456f * (v + 0.044715f * v * v * v);\nreturn 0.5f * v * (1.0f + tanhf(u));",
        "logistic": _CUDA_INNER + "return v / (1.0f + expf(-u));",
        "fast": _CUDA_INNER + "return __fdividef(v, 1.0f + __expf(-u));",
    },
    "softplus": {
        "library": "return v > 20.0f ? v : log1pf(expf(v));",
        "fast": "return v > 20.0f ? v : __logf(1.0f + __expf(v));",
        "stable": "return fmaxf(v, 0.0f) + log1pf(__expf(-fabsf(v)));",
    },
    "softsign": {
        "precise": "return v / (1.0f + fabsf(v));",
        "fast": "return __fdividef(v, 1.0f + fabsf(v));",
        "reciprocal": "return v * __frcp_rn(1.0f + fabsf(v));",
    },
    "elu": {
        "library": "return v > 0.0f ? v : expm1f(v);",
        "fast": "return v > 0.0f ? v : __expf(v) - 1.0f;",
        "clamped": "return fmaxf(v, 0.0f) + __expf(fminf(v, 0.0f)) - 1.0f;",
    },
}

GATES = {"swiglu": "swish", "geglu": "gelu_tanh"}
"""Gated units by the activation of their gate."""


def forms(table: Mapping[str, Forms], problem_id: str) -> tuple[str, ...]:
    """Names of the forms of a problem's activation; one empty name where it has none."""
    name = GATES.get(problem_id, problem_id)
    return tuple(table[name]) if name in table else ("",)


def body(table: Mapping[str, Forms], problem_id: str, form: str, indent: str = "    ") -> str:
    """An indented function body."""
    lines = table[GATES.get(problem_id, problem_id)][form].split("\n")
    return "\n".join(indent + line for line in lines)
