"""Optional packages: which extra of the `tidings` distribution installs each of them.

`pip install tidings` installs what a client and a broker need. Everything else is imported where it is used, and what
is missing is reported as one line with the command that installs it.

>>> missing("scipy").reason
"scipy is not installed; install it with: pip install 'tidings[capacity]'"
"""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from tidings.errors import UsageError

EXTRA_OF = {
    "deltalake": "pipeline",
    "jwt": "jwt",
    "matplotlib": "lab",
    "nicegui": "console",
    "pandas": "pipeline",
    "psycopg": "postgresql",
    "pyarrow": "segments",
    "pyspark": "pipeline",
    "scipy": "capacity",
}


def installed(package: str) -> bool:
    """True if the package can be imported; it is not imported."""
    return find_spec(package) is not None


def install_command(package: str, extra: str = "") -> str:
    return f"pip install 'tidings[{extra or EXTRA_OF[package]}]'"


def missing(package: str, extra: str = "") -> UsageError:
    """The error for an optional package that is not installed; `extra`: one that installs it, if not its own."""
    remedy = install_command(package, extra)
    return UsageError("E_NOT_INSTALLED", f"{package} is not installed; install it with: {remedy}")


def require(*packages: str, extra: str) -> None:
    """An error if one of them is not installed: for commands that would fail only after long work."""
    for package in packages:
        if not installed(package):
            raise missing(package, extra)


class LazyModule(ModuleType):
    """A module of an optional package that is imported when an attribute of it is first asked for."""

    def __getattr__(self, name: str) -> object:
        try:
            module = import_module(self.__name__)
        except ModuleNotFoundError as error:
            package = self.__name__.partition(".")[0]
            if error.name is None or error.name.partition(".")[0] != package:
                raise
            raise missing(package) from None
        attribute = self.__dict__[name] = getattr(module, name)  # looked up once
        return attribute


def lazy(name: str) -> LazyModule:
    """The module, without importing it yet.

    >>> statistics = lazy("statistics")
    >>> statistics.mean([1, 2, 3])
    2
    """
    return LazyModule(name)
