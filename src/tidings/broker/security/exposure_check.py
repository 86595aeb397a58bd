"""Who can reach a broker: nobody by accident, and what is unsafe not without a word."""

import logging

from tidings.broker.config.rules import exposed, is_loopback
from tidings.broker.config.tables import Configuration, ConsoleTable, ListenerTable
from tidings.broker.logs import note
from tidings.broker.security.users import Users
from tidings.errors import ConfigError

log = logging.getLogger("tidings.process")


def check_exposure(configuration: Configuration, known: Users | None, name: str) -> None:
    """Nobody becomes reachable for everybody by accident."""
    if known is not None:
        return
    problems = []
    remedy = f"add one: tidings user add NAME --file {configuration.users_file}"
    if configuration.access:
        problems.append(f"{name}: access: there are rules but no users; {remedy}")
    if configuration.tls.client_ca:
        problems.append(f"{name}: tls.client_ca: certificates name users, and there are none; {remedy}")
    if not configuration.users.allow_anonymous:
        if configuration.console.enabled and not is_loopback(configuration.console.host):
            host = configuration.console.host
            problems.append(f"{name}: console.host: {host} can be reached from other machines, with no users; {remedy}")
        problems += [
            f"{name}: listeners: {listener.host} can be reached from other machines and there are no users; "
            f"{remedy}, or write allow_anonymous = true in [users]"
            for listener in exposed(configuration)
        ]
    if problems:
        raise ConfigError(problems)


def note_exposure(configuration: Configuration) -> None:
    """What others can read of a broker that has users."""
    file = configuration.users_file
    if file.stat().st_mode & 0o077:
        note(log, logging.WARNING, "others can read the users file: chmod 600 it", file=file)
    console = configuration.console
    pages = [console] if console.enabled and not is_loopback(console.host) else []
    reached: list[ListenerTable | ConsoleTable] = [*exposed(configuration), *pages]
    for one in reached:
        if not one.tls:
            where = f"{one.host}:{one.port}"
            note(log, logging.WARNING, "passwords and messages can be read on their way: no TLS", listener=where)
