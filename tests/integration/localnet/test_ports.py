"""Ports that are given out to one process are given to no other, and to nobody twice."""

import subprocess
import sys

from tidings.localnet.ports import free_ports

CHILD = """
import random, sys
from tidings.localnet.ports import free_ports
random.seed(1)  # every process looks at the same ports in the same order
print(*(port for _ in range(20) for port in free_ports(3)), flush=True)
sys.stdin.read()
"""


def test_processes_that_look_at_the_same_ports_are_given_different_ones() -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    given = []
    for child in children:
        assert child.stdout is not None
        given += [int(port) for port in child.stdout.readline().split()]
    for child in children:
        child.communicate(timeout=60)
    assert len(given) == len(set(given)) == 3 * 20 * 3


def test_ports_are_consecutive_and_not_given_twice() -> None:
    rows = [free_ports(5) for _ in range(20)]
    assert all(row == list(range(row[0], row[0] + 5)) for row in rows)
    assert len({port for row in rows for port in row}) == 100
