"""Allocates free ports on loopback.

Two processes that look for ports at the same time must not be given the same ones, and nothing is bound between the
search and the start of a broker. So each port that is given out is locked until the process ends, by a record lock on
its byte of a file that all processes of the user share. The ports lie below the range of outgoing connections: a
dialling broker could otherwise occupy the port that its neighbour is about to listen on.
"""

import fcntl
import os
import random
import socket
from contextlib import ExitStack, suppress
from functools import cache

LOWEST, EPHEMERAL = 10_000, 32_000  # Linux assigns outgoing ports from 32768 on

_allocated: set[int] = set()  # by this process; its own locks do not exclude it


def free_ports(count: int) -> list[int]:
    """Return `count` consecutive ports that no process listens on and no other process has been given."""
    if len(_allocated) > (EPHEMERAL - LOWEST) // 2:
        _allocated.clear()
    while True:
        first = random.randrange(LOWEST, EPHEMERAL - count)
        ports = range(first, first + count)
        if _allocated.isdisjoint(ports) and _lock(ports):
            with ExitStack() as held, suppress(OSError):
                for port in ports:
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port))
                _allocated.update(ports)
                return list(ports)
            fcntl.lockf(_locks(), fcntl.LOCK_UN, count, first)


def _lock(ports: range) -> bool:
    try:
        fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, len(ports), ports.start)
    except OSError:
        return False
    return True


@cache
def _locks() -> int:
    """The file whose bytes stand for ports. It stays open: closing it would end the process's locks."""
    path = f"/tmp/tidings-ports-{os.getuid()}"  # not in TMPDIR: ports are the machine's
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
