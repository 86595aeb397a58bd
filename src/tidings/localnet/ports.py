"""Finds free ports on this machine."""

import random
import socket
from contextlib import ExitStack, suppress

LOWEST, EPHEMERAL = 10_000, 32_000  # Linux takes outgoing ports from 32768 on


def free_ports(count: int) -> list[int]:
    """Consecutive ports that are free now.

    They lie below the range of outgoing connections: a dialling broker could otherwise occupy the port that its
    neighbour is about to listen on.
    """
    while True:
        first = random.randrange(LOWEST, EPHEMERAL - count)
        with ExitStack() as held, suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return list(range(first, first + count))
