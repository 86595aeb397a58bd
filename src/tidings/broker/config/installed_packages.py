"""Refuses a configuration that needs an optional package that is not installed."""

from collections.abc import Iterator
from pathlib import Path

from tidings.broker.config.tables import Configuration
from tidings.errors import ConfigError
from tidings.extras import install_command, installed
from tidings.model.tables import ATTACHMENTS


def check_installed(configuration: Configuration) -> None:
    """A ConfigError that names every setting in question and what to install for it."""
    problems = [
        f"{setting}: needs {package}, which is not installed; install it with: {install_command(package)}"
        for setting, package in _needed(configuration)
        if not installed(package)
    ]
    if problems:
        raise ConfigError(problems)


def _needed(configuration: Configuration) -> Iterator[tuple[str, str]]:
    """Settings that the defaults do not have, each with the package it needs."""
    if configuration.admission.waiting_ms_max:
        yield "admission.waiting_ms_max", "scipy"
    if configuration.jwt.keys:
        yield "jwt.keys", "jwt"
    if configuration.console.enabled:
        yield "console.enabled", "nicegui"
    if configuration.store.url:
        yield "store.url", "psycopg"
    tracking = configuration.tracking
    if tracking.folder:
        yield "tracking.folder", "pyarrow"
    elif any((Path(configuration.broker.data) / "tracking" / ATTACHMENTS.name).glob("*.parquet")):
        yield "broker.data (it holds stored histories)", "pyarrow"
