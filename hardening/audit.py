"""Known weaknesses in the locked versions, looked up in a copy of a database of advisories.

    python -m hardening.audit DATABASE [--lock requirements-dev.lock] [--results FILE]

DATABASE is a directory of advisories in the OSV format, a JSON file each, such as osv.dev's export of those for PyPI.
Nothing is asked over a network, so this works where `pip-audit` does not, and says what was known when the copy was
made.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from hardening.record import note
from tidings.errors import UsageError

_ALL = Version("0.dev0")  # "introduced: 0" means always


@dataclass(frozen=True, slots=True)
class Finding:
    package: str
    version: Version
    advisory: str
    aliases: tuple[str, ...]


def locked(text: str) -> dict[NormalizedName, Version]:
    """The packages of a lock file.

    >>> locked("# locked\\nPyYAML==6.0.3\\n")
    {'pyyaml': <Version('6.0.3')>}
    """
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    pairs = (line.partition("==") for line in lines if line)
    return {canonicalize_name(name): Version(version) for name, _, version in pairs}


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
    return _ALL if text == "0" else Version(text)


def advisories(database: Path) -> Iterator[Mapping[str, Any]]:
    for path in sorted(database.rglob("*.json")):
        yield json.loads(path.read_bytes())


def packages_of(advisory: Mapping[str, Any]) -> set[NormalizedName]:
    about = (one.get("package", {}) for one in advisory.get("affected", ()))
    return {canonicalize_name(one["name"]) for one in about if one.get("ecosystem") == "PyPI"}


def audit(database: Path, packages: Mapping[NormalizedName, Version]) -> tuple[int, list[Finding]]:
    """Returns the number of advisories about these packages, in any version, and the findings for these versions."""
    known, read, found = 0, 0, []
    for advisory in advisories(database):
        known += 1
        about = sorted(packages_of(advisory) & packages.keys())
        read += bool(about)
        for package in about:
            if affects(advisory, package, packages[package]):
                aliases = tuple(advisory.get("aliases", ()))
                found.append(Finding(package, packages[package], advisory["id"], aliases))
    if not known:
        raise UsageError("E_AUDIT_DATABASE", f"{database} holds no advisories")
    return read, found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", type=Path)
    parser.add_argument("--lock", type=Path, default=Path("requirements-dev.lock"))
    parser.add_argument("--results", type=Path, help="add a line to this file")
    asked = parser.parse_args(arguments)
    try:
        packages = locked(asked.lock.read_text())
        read, found = audit(asked.database, packages)
    except (OSError, ValueError, UsageError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for one in found:
        sys.stdout.write(f"{one.package} {one.version}: {one.advisory} {' '.join(one.aliases)}\n")
    sys.stdout.write(f"{len(packages)} packages, {read} advisories about them, {len(found)} about these versions\n")
    if asked.results:
        note(asked.results, "audit", packages=len(packages), advisories=read, wrong=len(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
