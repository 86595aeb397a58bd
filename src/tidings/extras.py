"""Optional packages: which extra of the `tidings` distribution installs each of them.

`pip install tidings` installs what a client and a broker need. Everything else is imported where it is used, and what
is missing is reported as one line with the command that installs it.

>>> missing("scipy").reason
"scipy is not installed; install it with: pip install 'tidings[capacity]'"
"""

from importlib.util import find_spec

from tidings.errors import UsageError

EXTRA_OF = {
    "matplotlib": "lab",
    "nicegui": "console",
    "pyspark": "pipeline",
    "scipy": "capacity",
}


def installed(package: str) -> bool:
    """Whether the package can be imported; it is not imported."""
    return find_spec(package) is not None


def install_command(package: str) -> str:
    return f"pip install 'tidings[{EXTRA_OF[package]}]'"


def missing(package: str) -> UsageError:
    """The error for an optional package that is not installed."""
    return UsageError("E_NOT_INSTALLED", f"{package} is not installed; install it with: {install_command(package)}")
