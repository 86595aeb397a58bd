"""Measures logins of a known user while strangers try passwords, and what strangers make a broker write to its log.

    python -m hardening.innocent.logins [RESULTS]

Strangers come from 20 or 60 networks, each with one wrong login at a time, and do not stop. The known user logs in for
the first time since the broker started, so that its password has to be hashed; then again and again, without a token.
Then a thousand clients of that user connect at once to a broker that has just started, with strangers beside them.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from hardening.innocent import strangers
from hardening.innocent.broker import Gauge
from hardening.innocent.measure import Row, broker
from hardening.innocent.wire import Native, Target
from hardening.record import note

KNOWN = "attacker"  # of both users the one whose password is hashed as slowly as by default
NETWORKS = (20, 60)
SECONDS, AGAIN, TOGETHER = 8.0, 30, 1000
CONFIG = "[limits]\nconnections_per_address_max = 5000\nconnections_per_user_max = 5000\n"


@contextmanager
def attacked(work: Callable[[Target, int], None], count: int) -> Iterator[tuple[Target, Path]]:
    """A broker that has just started, with strangers at work in threads; yields it and its log."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        Gauge(folder / "gauge", create=True)
        with broker(folder, Row("logins", strangers.pings, CONFIG, users=True), "") as ports:
            target = Target(ports, ports["http"], time.monotonic() + 600.0)
            ending = Target(ports, ports["http"], 0.0)
            stop = threading.Event()
            thread = partial(threading.Thread, target=_until, daemon=True)
            threads = [thread(args=(stop, work, ending, number)) for number in range(count)]
            for one in threads:
                one.start()
            try:
                yield target, folder / "log"
            finally:
                stop.set()
                for one in threads:
                    one.join(30)


def _until(stop: threading.Event, work: Callable[[Target, int], None], target: Target, number: int) -> None:
    while not stop.is_set():
        with suppress(OSError):
            work(target, number)


def login_ms(target: Target) -> float:
    began = time.monotonic()
    Native(target, KNOWN).socket.close()
    return 1000 * (time.monotonic() - began)


def beside(networks: int) -> dict[str, float]:
    with attacked(strangers.one_wrong_login, networks) as (target, log):
        time.sleep(1.0)
        first_ms = login_ms(target)
        again = sorted(login_ms(target) for _ in range(AGAIN))
        before, began = log.stat().st_size, time.monotonic()
        time.sleep(SECONDS)
        written = (log.stat().st_size - before) / (time.monotonic() - began)
    figures = {"first_ms": first_ms, "again_median_ms": again[AGAIN // 2], "again_longest_ms": again[-1]}
    return {name: round(value, 1) for name, value in (figures | {"log_bytes_per_second": written}).items()}


def together(networks: int) -> dict[str, float]:
    """Seconds until a thousand clients are connected to a broker that has just started."""
    with attacked(strangers.one_wrong_login, networks) as (target, _):
        began = time.monotonic()
        there: list[Native] = []
        mutex = threading.Lock()

        def connect() -> None:
            for _ in range(TOGETHER // 20):
                one = Native(target, KNOWN)
                with mutex:
                    there.append(one)

        threads = [threading.Thread(target=connect) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - began
        assert len(there) == TOGETHER, f"{TOGETHER - len(there)} clients could not log in"
        for client in there:
            client.socket.close()
    return {f"{TOGETHER}_clients_seconds": round(seconds, 1)}


def garbage() -> dict[str, float]:
    with attacked(lambda target, _: strangers.one_garbage(target), 4) as (_, log):
        time.sleep(1.0)
        before = log.stat().st_size
        time.sleep(SECONDS)
        return {"garbage_log_bytes_per_second": round((log.stat().st_size - before) / SECONDS, 1)}


def main() -> None:
    results = sys.argv[1] if sys.argv[1:] else None
    for networks in NETWORKS:
        figures: dict[str, float] = beside(networks) | together(networks) | garbage()
        sys.stdout.write(f"{networks} networks: {figures}\n")
        sys.stdout.flush()
        if results:
            note(results, "logins beside strangers", networks=networks, **figures, wrong=0)


if __name__ == "__main__":
    main()
