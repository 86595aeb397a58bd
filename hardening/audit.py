"""Known weaknesses in the locked versions and in the libraries below them, looked up in copies of advisories.

    python -m hardening.audit [DATABASE] [--lock requirements-dev.lock] [--results FILE]

DATABASE is a directory of advisories in the OSV format, a JSON file each, such as osv.dev's export of those for PyPI.
Nothing is asked over a network, so this works where `pip-audit` does not, and says what was known when the copy was
made. Without DATABASE only the libraries are judged that no lock file names: SQLite, CPython and OpenSSL as this
interpreter has them, by library_advisories.json, which holds what has mattered of them in the same format (ecosystem
"libraries"; DATABASE may have more of these) and says which cannot be reached here and why. Distributions mend versions
without another number: the advisory's name is what to look for in their list (`apt changelog libsqlite3-0`).
"""

import argparse
import json
import platform
import re
import sqlite3
import ssl
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from hardening.record import note
from tidings.errors import UsageError

_ALL = Version("0.dev0")  # "introduced: 0" means always
LIBRARIES = Path(__file__).with_name("library_advisories.json")
PYPI, OF_LIBRARIES = "PyPI", "libraries"
_LETTERS = re.compile(r"(\d+\.\d+\.\d+)([a-z]{1,2})")  # of OpenSSL before 3


@dataclass(frozen=True, slots=True)
class Finding:
    package: str
    version: Version
    advisory: str
    aliases: tuple[str, ...]
    unreachable: str = ""  # why it does not matter here


def locked(text: str) -> dict[NormalizedName, Version]:
    """The packages of a lock file.

    >>> locked("# locked\\nPyYAML==6.0.3\\n")
    {'pyyaml': <Version('6.0.3')>}
    """
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    pairs = (line.partition("==") for line in lines if line)
    return {canonicalize_name(name): Version(version) for name, _, version in pairs}


def libraries() -> dict[NormalizedName, Version]:
    """The libraries that this interpreter runs with."""
    openssl = ssl.OPENSSL_VERSION.split()[1]
    versions = {"sqlite": sqlite3.sqlite_version, "cpython": platform.python_version(), "openssl": openssl}
    return {canonicalize_name(name): _version(text) for name, text in versions.items()}


def affects(advisory: Mapping[str, Any], package: NormalizedName, version: Version) -> bool:
    """True if the advisory affects this version of the package.

    >>> events = [{"introduced": "0"}, {"fixed": "1.2"}, {"introduced": "2.0"}, {"last_affected": "2.1"}]
    >>> ranges = [{"type": "ECOSYSTEM", "events": events}]
    >>> advisory = {"affected": [{"package": {"name": "Some_Thing", "ecosystem": "PyPI"}, "ranges": ranges}]}
    >>> [affects(advisory, canonicalize_name("some-thing"), Version(one)) for one in ("1.1", "1.2", "2.1", "2.2")]
    [True, False, True, False]
    """
    if advisory.get("withdrawn"):
        return False
    for one in advisory.get("affected", ()):
        if canonicalize_name(one.get("package", {}).get("name", "")) != package:
            continue
        if str(version) in one.get("versions", ()):
            return True
        if any(_within(range["events"], version) for range in one.get("ranges", ()) if range["type"] == "ECOSYSTEM"):
            return True
    return False


def _within(events: Sequence[Mapping[str, str]], version: Version) -> bool:
    """True if the last event up to this version leaves it affected."""
    found = False
    for kind, at in sorted(((*event.items(),)[0] for event in events), key=lambda event: _version(event[1])):
        if kind == "last_affected":
            found = found and version <= _version(at)
        elif version >= _version(at):
            found = kind == "introduced"
    return found


def _version(text: str) -> Version:
    """
    >>> _version("1.1.1w") < _version("1.1.1za") < _version("3.0.0")
    True
    """
    if found := _LETTERS.fullmatch(text):
        number, letters = found.groups()
        text = f"{number}.post{sum(ord(letter) - ord('a') + 1 for letter in letters)}"
    return _ALL if text == "0" else Version(text)


def advisories(database: Path) -> list[Mapping[str, Any]]:
    found = [json.loads(path.read_bytes()) for path in sorted(database.rglob("*.json"))]
    if not found:
        raise UsageError("E_AUDIT_DATABASE", f"{database} holds no advisories")
    return found


def findings(database: Path | None, lock: Path) -> tuple[int, int, list[Finding]]:
    """Of all: how many packages and libraries, advisories about them, and findings."""
    known = [] if database is None else advisories(database)
    packages = {} if database is None else locked(lock.read_text())
    read, found = audit(known, packages)
    below = libraries()
    more, found_below = audit([*json.loads(LIBRARIES.read_bytes()), *known], below, OF_LIBRARIES)
    return len(packages) + len(below), read + more, found + found_below


def packages_of(advisory: Mapping[str, Any], ecosystem: str = PYPI) -> set[NormalizedName]:
    about = (one.get("package", {}) for one in advisory.get("affected", ()))
    return {canonicalize_name(one["name"]) for one in about if one.get("ecosystem") == ecosystem}


def audit(
    known_advisories: Iterable[Mapping[str, Any]],
    packages: Mapping[NormalizedName, Version],
    ecosystem: str = PYPI,
) -> tuple[int, list[Finding]]:
    """Returns the number of advisories about these packages, in any version, and the findings for these versions."""
    read, found = 0, []
    for advisory in known_advisories:
        about = sorted(packages_of(advisory, ecosystem) & packages.keys())
        read += bool(about)
        for package in about:
            if affects(advisory, package, packages[package]):
                aliases = tuple(advisory.get("aliases", ()))
                unreachable = advisory.get("database_specific", {}).get("unreachable", "")
                found.append(Finding(package, packages[package], advisory["id"], aliases, unreachable))
    return read, found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", type=Path, nargs="?", help="without it, only the libraries are judged")
    parser.add_argument("--lock", type=Path, default=Path("requirements-dev.lock"))
    parser.add_argument("--results", type=Path, help="add a line to this file")
    asked = parser.parse_args(arguments)
    try:
        packages, read, found = findings(asked.database, asked.lock)
    except (OSError, ValueError, UsageError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for one in found:
        names = " ".join((one.advisory, *one.aliases))
        why = f" (does not reach: {one.unreachable})" if one.unreachable else ""
        sys.stdout.write(f"{one.package} {one.version}: {names}{why}\n")
    wrong = sum(not one.unreachable for one in found)
    sys.stdout.write(f"{packages} packages, {read} advisories about them, {wrong} about these versions\n")
    if asked.results:
        note(asked.results, "audit", packages=packages, advisories=read, wrong=wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
