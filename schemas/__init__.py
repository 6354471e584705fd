"""Record types, bins, statuses, identities and errors: what every other folder speaks in."""

from kbench.schemas.convert import from_dict, to_dict
from kbench.schemas.errors import (
    DataError,
    InfrastructureError,
    KbenchError,
    MissingDependencyError,
    UnknownNameError,
    UserError,
    require_package,
)
from kbench.schemas.record import Record, arrow_schema, json_schema
from kbench.schemas.records.benchmark import (
    Forecast,
    KnownKernel,
    Pair,
    PairKind,
    Query,
    Question,
    QuestionKind,
    Score,
    Submission,
)
from kbench.schemas.records.kernels import AuthorClass, Backend, Kernel, KernelCounters, KernelSource, LiveKernel
from kbench.schemas.records.launch_plan import LaunchPlan, PlanSummary
from kbench.schemas.records.measurements import Environment, Event, Measurement, TuningTime
from kbench.schemas.records.problems import Problem, ReferenceTime, Workload
from kbench.schemas.status import Status, Trust

RECORD_TYPES: tuple[type[Record], ...] = (
    Problem, Workload, ReferenceTime, Kernel, KernelCounters, LaunchPlan, PlanSummary, Measurement, Environment, Pair,
    Question, Query, Forecast, Submission, Score, Event, LiveKernel, TuningTime,
)  # fmt: skip
"""Every record type, in the order data meets them."""

__all__ = [
    "RECORD_TYPES",
    "AuthorClass",
    "Backend",
    "DataError",
    "Environment",
    "Event",
    "Forecast",
    "InfrastructureError",
    "KbenchError",
    "Kernel",
    "KernelCounters",
    "KernelSource",
    "KnownKernel",
    "LaunchPlan",
    "LiveKernel",
    "Measurement",
    "MissingDependencyError",
    "Pair",
    "PairKind",
    "PlanSummary",
    "Problem",
    "Query",
    "Question",
    "QuestionKind",
    "Record",
    "ReferenceTime",
    "Score",
    "Status",
    "Submission",
    "Trust",
    "TuningTime",
    "UnknownNameError",
    "UserError",
    "Workload",
    "arrow_schema",
    "from_dict",
    "json_schema",
    "require_package",
    "to_dict",
]
