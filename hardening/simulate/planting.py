"""Mutants: defects that are planted to see whether the simulation notices them.

A mutant replaces one method by a broken one for as long as it is planted. `first_noticed` runs seeds until a checker
fails.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hardening.simulate.run import run
from tidings.errors import TidingsError

SEEDS_MAX = 200
Method: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    what: str
    owner: type
    method: str
    broken: Callable[[Method], Method]  # the method as it is, and what replaces it
    seed: int = 1  # from which on tests look: one of the next notices
    choices: Mapping[str, str] = field(default_factory=lambda: {"world": "wire"})  # that are forced


@dataclass(frozen=True, slots=True)
class Notice:
    seed: int
    checker: str  # its name, or the kind of error by which the run ended


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """While this lasts the method is broken."""
    before = mutant.owner.__dict__[mutant.method]
    plain = before.__func__ if isinstance(before, classmethod) else before
    broken: Any = mutant.broken(plain)
    setattr(mutant.owner, mutant.method, classmethod(broken) if isinstance(before, classmethod) else broken)
    try:
        yield
    finally:
        setattr(mutant.owner, mutant.method, before)


def first_noticed(mutant: Mutant, seeds: Sequence[int] = range(1, SEEDS_MAX + 1)) -> Notice | None:
    """The first seed by which something is found to be wrong; None: it goes unnoticed."""
    with planted(mutant):
        for seed in seeds:
            try:
                run(seed, **mutant.choices)
            except AssertionError as error:
                checker, colon, _ = str(error).partition(":")
                return Notice(seed, checker if colon and " " not in checker else "internal error")
            except (KeyError, TidingsError) as error:
                return Notice(seed, type(error).__name__)
    return None
