"""Kinds of experiments that are measured by other means than throughput."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tidings.lab.paced import measure_waiting
from tidings.lab.registration import first_message, register
from tidings.lab.run_verdict import Found
from tidings.lab.servers import Server
from tidings.lab.workloads import Parameters

SPECIALS: Mapping[str, Callable[[Server, Parameters, str], Found]] = MappingProxyType(
    {
        "registration": register,
        "first-message": first_message,
        "waiting": measure_waiting,
    }
)
