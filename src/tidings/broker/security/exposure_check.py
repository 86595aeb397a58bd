"""Refuses to start a broker that would be reachable without authentication, and logs unsafe settings."""

import logging

from tidings.broker.config.rules import exposed, is_loopback
from tidings.broker.config.tables import Configuration, ConsoleTable, ListenerTable, MetricsTable
from tidings.broker.logs import note
from tidings.broker.security.users import Users
from tidings.errors import ConfigError

log = logging.getLogger("tidings.process")


def check_exposure(configuration: Configuration, known: Users | None, name: str) -> None:
    """A ConfigError if other machines can reach a broker without users."""
    if known is not None:
        return
    problems = []
    remedy = f"add one: tidings user add NAME --file {configuration.users_file}"
    if configuration.access:
        problems.append(f"{name}: access: access rules need users; {remedy}")
    if configuration.tls.client_ca:
        problems.append(f"{name}: tls.client_ca: certificates name users, and none are configured; {remedy}")
    if not configuration.users.allow_anonymous:
        if configuration.console.enabled and not is_loopback(configuration.console.host):
            host = configuration.console.host
            problems.append(
                f"{name}: console.host: {host} is reachable from other machines and no users are configured; {remedy}"
            )
        metrics = configuration.metrics
        if metrics.enabled and metrics.api and not is_loopback(metrics.host):
            problems.append(
                f"{name}: metrics.host: {metrics.host} is reachable from other machines, with the management API and "
                f"no users; {remedy}, or set api = false"
            )
        problems += [
            f"{name}: listeners: {listener.host} is reachable from other machines and no users are configured; "
            f"{remedy}, or set allow_anonymous = true in [users]"
            for listener in exposed(configuration)
        ]
    if problems:
        raise ConfigError(problems)


def note_exposure(configuration: Configuration) -> None:
    """Log settings of a broker with users that let others read passwords or messages."""
    file = configuration.users_file
    if file.exists() and file.stat().st_mode & 0o077:
        note(log, logging.WARNING, "the users file is readable by other users; run chmod 600 on it", file=file)
    console = configuration.console
    metrics = configuration.metrics
    pages: list[ConsoleTable | MetricsTable] = [console] if console.enabled and not is_loopback(console.host) else []
    if metrics.enabled and metrics.api and not is_loopback(metrics.host):
        pages.append(metrics)
    reached: list[ListenerTable | ConsoleTable | MetricsTable] = [*exposed(configuration), *pages]
    for one in reached:
        if not one.tls:
            where = f"{one.host}:{one.port}"
            note(log, logging.WARNING, "no TLS: passwords and messages can be read in transit", listener=where)
