"""Record types, bins, statuses, identities and errors: what every other folder speaks in."""

from kbench.schemas.environment import Environment
from kbench.schemas.errors import (
    DataError,
    InfrastructureError,
    KbenchError,
    MissingDependencyError,
    UnknownNameError,
    UserError,
)
from kbench.schemas.event import Event
from kbench.schemas.forecast import Forecast
from kbench.schemas.kernel import Backend, Kernel, KernelSource
from kbench.schemas.measurement import Measurement
from kbench.schemas.pair import Pair, PairKind
from kbench.schemas.problem import Problem
from kbench.schemas.query import Query
from kbench.schemas.record import Record, arrow_schema, from_dict, json_schema, to_dict
from kbench.schemas.score import Score
from kbench.schemas.status import Status
from kbench.schemas.submission import Submission
from kbench.schemas.workload import Workload

RECORD_TYPES: tuple[type[Record], ...] = (
    Problem, Workload, Kernel, Measurement, Environment, Pair, Query, Forecast, Submission, Score, Event,
)  # fmt: skip
"""Every record type, in the order data meets them."""

__all__ = [
    "RECORD_TYPES",
    "Backend",
    "DataError",
    "Environment",
    "Event",
    "Forecast",
    "InfrastructureError",
    "KbenchError",
    "Kernel",
    "KernelSource",
    "Measurement",
    "MissingDependencyError",
    "Pair",
    "PairKind",
    "Problem",
    "Query",
    "Record",
    "Score",
    "Status",
    "Submission",
    "UnknownNameError",
    "UserError",
    "Workload",
    "arrow_schema",
    "from_dict",
    "json_schema",
    "to_dict",
]
