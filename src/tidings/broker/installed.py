"""Refuses a configuration that needs an optional package that is not installed."""

from tidings.broker.config_tables import Configuration
from tidings.errors import ConfigError
from tidings.extras import install_command, installed


def check_installed(configuration: Configuration) -> None:
    """A ConfigError that names every setting in question and what to install for it."""
    needed = []
    if configuration.admission.waiting_ms_max:
        needed.append(("admission.waiting_ms_max", "scipy"))
    problems = [
        f"{setting}: needs {package}, which is not installed; install it with: {install_command(package)}"
        for setting, package in needed
        if not installed(package)
    ]
    if problems:
        raise ConfigError(problems)
