"""Reads and checks the broker's configuration file; `tables` defines its keys.

>>> Configuration().listeners[0].port
7300
>>> parse('[[listeners]]\\nport = 70000', "a.toml")
Traceback (most recent call last):
    ...
tidings.errors.ConfigError: E_CONFIG: a.toml:2: listeners[0].port: 70000 is out of range; give a number from 0 to 65535
"""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tidings.broker.config.environment import with_environment
from tidings.broker.config.rules import Checker
from tidings.broker.config.schema_reader import Problem, read
from tidings.broker.config.tables import PORTS, PROTOCOLS, Configuration
from tidings.broker.config.toml_positions import Path as KeyPath
from tidings.broker.config.toml_positions import lines_of
from tidings.errors import ConfigError

FILE_BYTES_MAX = 1 << 20
USERS_FILE_KEYS = (("users", "file"), ("broker", "data"))
NETWORK_FILES = ("secret_file", "certificate", "key", "ca", "encoding_key_file")


def load(
    path: Path | None, *, protocols: Sequence[str] = PROTOCOLS, environment: Mapping[str, str] = os.environ
) -> Configuration:
    """Read and check a file; without one, the defaults. File names in it are relative to its directory. Settings of the
    environment go before those of the file (`environment`)."""
    if path is None:
        return parse("", "the defaults", protocols=protocols, environment=environment)
    return _beside(path.parent, parse(_text(path), str(path), protocols=protocols, environment=environment))


def load_users_file(path: Path | None, environment: Mapping[str, str] = os.environ) -> Path:
    """The users file that a configuration names, even if other keys are wrong."""
    text, name = ("", "the defaults") if path is None else (_text(path), str(path))
    problems = list[Problem]()
    document, variables = with_environment(parse_toml(text, name), environment)
    configuration = read(Configuration, document, (), problems)
    wrong = [one for one in problems if one.path[:2] in USERS_FILE_KEYS or one.path in (("users",), ("broker",))]
    if wrong:
        lines = lines_of(text)
        raise ConfigError([_located(problem, name, lines, variables) for problem in wrong])
    return configuration.users_file if path is None else _beside(path.parent, configuration).users_file


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read ({error.strerror}); name a file that exists"]) from None
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError([f"{path}: longer than {FILE_BYTES_MAX} bytes; this is not a configuration"])
    try:
        return data.decode("utf-8-sig")  # some editors begin with a mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError([f"{path}:{line}: not UTF-8; save the file as UTF-8"]) from None


def parse(
    text: str, name: str, *, protocols: Sequence[str] = PROTOCOLS, environment: Mapping[str, str] | None = None
) -> Configuration:
    """Read and check a configuration's text; a ConfigError lists every problem."""
    written = parse_toml(text, name)
    if isinstance(written.get("console"), bool):  # the short form of its table
        written["console"] = {"enabled": written["console"]}
    document, variables = with_environment(written, environment or {})
    problems: list[Problem] = []
    configuration = _with_console(_with_ports(read(Configuration, document, (), problems), document), document)
    if "listeners" not in document:
        spoken = tuple(one for one in configuration.listeners if one.protocol in protocols)
        configuration = replace(configuration, listeners=spoken)
    problems += Checker(configuration, protocols).problems()
    if problems:
        lines = lines_of(text)
        raise ConfigError([_located(problem, name, lines, variables) for problem in problems])
    return configuration


def _with_ports(configuration: Configuration, document: dict[str, object]) -> Configuration:
    """Listeners that name no port have that of their protocol."""
    written = document.get("listeners")
    if not isinstance(written, list) or len(written) != len(configuration.listeners):
        return configuration
    pairs = zip(configuration.listeners, written, strict=True)
    listeners = tuple(
        one if not isinstance(table, dict) or "port" in table else replace(one, port=PORTS.get(one.protocol, one.port))
        for one, table in pairs
    )
    return replace(configuration, listeners=listeners)


def _with_console(configuration: Configuration, document: dict[str, object]) -> Configuration:
    """Gives a console without its own address that of the metrics."""
    written, metrics = document.get("console"), configuration.metrics
    if not metrics.enabled or not isinstance(written, dict):
        return configuration
    same: dict[str, Any] = {name: getattr(metrics, name) for name in ("host", "port") if name not in written}
    return replace(configuration, console=replace(configuration.console, **same))


def parse_toml(text: str, name: str) -> dict[str, object]:
    """Read TOML; a ConfigError names the line of a syntax error."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError) as error:  # ValueError: a date that does not exist
        found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", str(error))
        line = int(found[1]) if found and found[1] else text.count("\n") + 1
        reason = str(error)[: found.start()] if found else str(error)
        raise ConfigError([f"{name}:{line}: not valid TOML: {reason}; see toml.io"]) from None
    except RecursionError:
        raise ConfigError([f"{name}: nested too deeply; write it flat"]) from None


def _located(problem: Problem, name: str, lines: Mapping[KeyPath, int], variables: Mapping[KeyPath, str]) -> str:
    """The problem after the variable or the line that it is in."""
    path = problem.path
    for end in range(len(path), 0, -1):
        if path[:end] in variables:
            return f"environment variable {variables[path[:end]]}: {problem}"
    while path and path not in lines:
        path = path[:-1]
    return f"{name}:{lines[path]}: {problem}" if path else f"{name}: {problem}"


def _beside(directory: Path, configuration: Configuration) -> Configuration:
    def beside(name: str) -> str:
        return str(directory / name) if name else ""

    tls, users, broker = configuration.tls, configuration.users, configuration.broker
    network, jwt = configuration.network, configuration.jwt
    files: dict[str, Any] = {name: beside(getattr(network, name)) for name in NETWORK_FILES}
    return replace(
        configuration,
        broker=replace(broker, data=beside(broker.data)),
        tls=replace(tls, certificate=beside(tls.certificate), key=beside(tls.key), client_ca=beside(tls.client_ca)),
        users=replace(users, file=beside(users.file)),
        jwt=configuration.jwt if configuration.jwt.by_url else replace(jwt, keys=beside(jwt.keys)),
        network=replace(network, **files),
        store=replace(configuration.store, password_file=beside(configuration.store.password_file)),
        tracking=replace(configuration.tracking, folder=beside(configuration.tracking.folder)),
        logging=replace(configuration.logging, audit_file=beside(configuration.logging.audit_file)),
    )
