"""A broker whose store is in a database: broker processes and servers that are ended at random instants.

    make crash-database KILLS=500

The load, the promises and the judge are those of `hardening.kills.broker`; here every second blow hits the database,
and some hit both. Of the server's blows most kill all its processes at once, some end it in an orderly way, some only
end the sessions, and some stop it for a while. The broker's clients keep their connections meanwhile.
"""

import asyncio
import random
import signal
import sys
import time

from hardening.kills.broker import BrokerProcess, context, hurt, parts_of
from hardening.kills.campaign import rounds
from hardening.kills.ledger import Ledger
from hardening.record import noted, times
from hardening.support.postgresql import QUICK, Cluster, cluster

KILLS_PER_STORE = 10
END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'tidings%'"


class Blows:
    """Any of the ways in which a server or a broker ends."""

    def __init__(self, server: Cluster) -> None:
        self._server = server

    def end(self, broker: BrokerProcess, rng: random.Random) -> None:
        way = rng.random()
        if way < 0.5:
            broker.end(rng)
        elif way < 0.7:
            self._server.kill()
            time.sleep(rng.uniform(0, 0.3))
            self._server.start()
        elif way < 0.8:
            self._server.stop()
            self._server.start()
        elif way < 0.9:
            self._server.execute(END_SESSIONS)
        elif way < 0.95:
            self._server.signal(signal.SIGSTOP)
            time.sleep(rng.uniform(0, 0.5))
            self._server.signal(signal.SIGCONT)
        else:
            self._server.kill()
            broker.kill()
            self._server.start()
            broker.start()


def one_store(kills: int, seed: int, number: int) -> Ledger:
    """The round of this number: raises AssertionError with what was broken; returns the ledger of its store."""
    context.set_forkserver_preload(["hardening.kills.broker"])
    rng = random.Random(f"{seed}/{number}")
    with cluster(QUICK) as server:
        blows = Blows(server)
        ledger = asyncio.run(hurt(server.database(), kills, rng, alone=number % 2 == 1, end=blows.end))
    problems = ledger.problems()
    assert not problems, f"round {number} of {kills} kills, seed {seed}: {problems[:10]}"
    return ledger


def main(arguments: list[str]) -> None:
    kills = times(arguments[0]) if arguments else 500
    seed = int(arguments[1]) if arguments[1:] else random.SystemRandom().randrange(1 << 32)
    results = arguments[2] if arguments[2:] else None
    name, parts = "kills of brokers and databases", parts_of(kills, KILLS_PER_STORE)

    def run() -> dict[str, int]:
        return rounds(name, seed, len(parts), lambda number: one_store(parts[number], seed, number).figures())

    figures = noted(results, name, run, kills=kills, seed=seed)
    sys.stdout.write(f"{kills} kills, seed {seed}: nothing lost of {figures['confirmed']:,} confirmed messages\n")
