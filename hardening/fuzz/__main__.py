"""The command: `python -m hardening.fuzz TARGET COUNT SEED`."""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import hardening.fuzz
from hardening.fuzz import links, sockets
from hardening.fuzz.codecs import Codecs
from hardening.fuzz.configuration import Texts
from hardening.fuzz.segments import Files
from hardening.fuzz.selectors import SECONDS_MAX, Selectors
from hardening.record import noted

INPUT_SECONDS_MAX = 1.0
TARGETS = ("codecs", "links", "configuration", "segments", "selectors", "sockets")


def each(run: Callable[[int, int], object], asked: argparse.Namespace, end: float) -> int:
    """One input after the other; returns how many there were."""
    first: int = asked.first
    for number in range(first, first + asked.count):
        if time.monotonic() > end:
            return number - first
        began = time.thread_time()
        try:
            run(asked.seed, number)
            took = time.thread_time() - began
            assert asked.slow or took < INPUT_SECONDS_MAX, f"it took {took:.1f} s"
        except BaseException as error:
            command = f"python -m hardening.fuzz {asked.target} 1 {asked.seed} --first {number}"
            error.add_note(f"Repeat with: {command}")
            raise
    return int(asked.count)


def decided(asked: argparse.Namespace, end: float) -> int:
    """Selectors; what takes too long to decide is wrong."""
    selectors = Selectors()
    done = each(selectors.run, asked, end)
    slowest, slowest_read = selectors.slowest * 1000, selectors.slowest_read * 1000
    sys.stdout.write(f"{selectors.read} are selectors; the slowest took {slowest_read:.1f} ms to read, ")
    sys.stdout.write(f"{slowest:.2f} ms to decide for a message\n")
    assert asked.slow or selectors.slowest < SECONDS_MAX, "to decide a selector takes too long"
    return done


def lies(asked: argparse.Namespace, end: float) -> int:
    """Networks with a liar, until so much was changed. `--first`: the number of the first network."""
    done, number = 0, asked.first
    while done < asked.count and time.monotonic() < end:
        try:
            done += links.run(asked.seed * 1_000_000 + number)
        except BaseException as error:
            command = f"python -m hardening.fuzz links 1 {asked.seed} --first {number}"
            error.add_note(f"Repeat with: {command}")
            raise
        number += 1
    return done


def run(asked: argparse.Namespace) -> int:
    """Returns how many inputs there were; what is wrong is an exception."""
    end = time.monotonic() + (asked.seconds or float("inf"))
    match asked.target:
        case "codecs":
            return each(Codecs().run, asked, end)
        case "configuration":
            return each(Texts().run, asked, end)
        case "selectors":
            return decided(asked, end)
        case "segments":
            with tempfile.TemporaryDirectory() as folder:
                return each(Files(Path(folder)).run, asked, end)
        case "links":
            return lies(asked, end)
        case _:
            return asyncio.run(sockets.fuzz(asked.count, asked.seed, asked.first, end))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m hardening.fuzz",
        description=hardening.fuzz.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("count", type=int, help="how many inputs")
    parser.add_argument("seed", type=int)
    parser.add_argument("--first", type=int, default=0, help="the number of the first input")
    parser.add_argument("--seconds", type=float, help="begin nothing more after so long")
    parser.add_argument("--slow", action="store_true", help="do not judge times: a sanitizer slows everything down")
    parser.add_argument("--results", help="add a line to this file")
    asked = parser.parse_args(arguments)
    began = time.monotonic()
    done = noted(asked.results, "fuzzing", lambda: {"inputs": run(asked)}, parser=asked.target, seed=asked.seed)[
        "inputs"
    ]
    took = time.monotonic() - began
    sys.stdout.write(f"{asked.target}: {done} inputs from seed {asked.seed}, {took:.0f} s, nothing wrong\n")


if __name__ == "__main__":
    main(sys.argv[1:])
