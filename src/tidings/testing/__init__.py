"""Public kit for tests of applications: a broker on loopback, in an event loop, on a thread or as a process."""

from tidings.testing.broker_process import BrokerProcess
from tidings.testing.local_broker import BrokerThread, local_broker

__all__ = ["BrokerProcess", "BrokerThread", "local_broker"]
