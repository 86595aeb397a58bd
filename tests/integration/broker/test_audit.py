"""Known weaknesses of dependencies: advisories as they lie in a copy of the database."""

import json
from pathlib import Path

import pytest
from hardening import audit as audit_module
from hardening.audit import LIBRARIES, OF_LIBRARIES, advisories, affects, audit, libraries, locked, main
from packaging.utils import canonicalize_name
from packaging.version import Version


def advisory(number: int, name: str, introduced: str, fixed: str) -> str:
    git = {"type": "GIT", "events": [{"introduced": "0"}]}
    versions = {"type": "ECOSYSTEM", "events": [{"introduced": introduced}, {"fixed": fixed}]}
    affected = {"package": {"name": name, "ecosystem": "PyPI"}, "ranges": [git, versions]}
    return json.dumps({"id": f"PYSEC-0-{number}", "aliases": [f"CVE-0-{number}"], "affected": [affected]})


@pytest.fixture
def database(tmp_path: Path) -> Path:
    for number, (name, introduced, fixed) in enumerate((("some-thing", "0", "1.10"), ("other", "2.0", "3.0rc1"))):
        path = tmp_path / "database" / name / f"{number}.json"
        path.parent.mkdir(parents=True)
        path.write_text(advisory(number, name, introduced, fixed))
    return tmp_path / "database"


def found(database: Path, lock: str) -> list[str]:
    return [one.advisory for one in audit(advisories(database), locked(lock))[1]]


def test_a_version_is_affected_from_its_introduction_until_it_is_mended(database: Path) -> None:
    assert found(database, "Some_Thing==1.9\nother==1.9\n") == ["PYSEC-0-0"]
    assert found(database, "some.thing==1.10\nother==3.0b1\n") == ["PYSEC-0-1"]
    assert found(database, "some-thing==1.10\nother==3.0\nunheard-of==1\n") == []


def test_versions_that_are_listed_and_advisories_that_were_withdrawn() -> None:
    thing = canonicalize_name("thing")
    listed = {"affected": [{"package": {"name": "thing"}, "versions": ["1.0", "1.1"]}]}
    assert affects(listed, thing, Version("1.1"))
    assert not affects(listed, thing, Version("1.2"))
    assert not affects(listed, canonicalize_name("another"), Version("1.1"))
    assert not affects({**listed, "withdrawn": "2026-01-01T00:00:00Z"}, thing, Version("1.1"))


def test_the_command_says_what_it_found_and_notes_it(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "libraries", dict)
    lock, results = tmp_path / "lock", tmp_path / "results.json"
    lock.write_text("# all of it\nsome-thing==1.9\nother==3.0\n")
    assert main([str(database), "--lock", str(lock), "--results", str(results)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "some-thing 1.9: PYSEC-0-0 CVE-0-0",
        "2 packages, 2 advisories about them, 1 about these versions",
    ]
    noted = json.loads(results.read_text())
    assert (noted["what"], noted["packages"], noted["advisories"], noted["wrong"]) == ("audit", 2, 2, 1)
    lock.write_text("other==3.0\n")
    assert main([str(database), "--lock", str(lock)]) == 0


def test_what_is_no_database_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = tmp_path / "lock"
    lock.write_text("other==3.0\n")
    assert main([str(tmp_path), "--lock", str(lock)]) == 2
    assert "E_AUDIT_DATABASE" in capsys.readouterr().err
    (tmp_path / "half.json").write_text("{")
    assert main([str(tmp_path), "--lock", str(lock)]) == 2


def test_the_libraries_below_are_judged_without_a_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert libraries().keys() == {"sqlite", "cpython", "openssl"}
    versions = {"sqlite": "3.45.0", "cpython": "3.11.4", "openssl": "3.0.14"}
    monkeypatch.setattr(
        audit_module, "libraries", lambda: {canonicalize_name(name): Version(text) for name, text in versions.items()}
    )
    assert main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "cpython 3.11.4: CVE-2023-40217" in lines
    assert "openssl 3.0.14: CVE-2024-6119" in lines
    assert any(line.startswith("sqlite 3.45.0: CVE-2025-6965 (does not reach: ") for line in lines)
    assert not any("CVE-2023-24329" in line for line in lines), "mended in 3.11.4"


@pytest.mark.parametrize(
    ("name", "version", "affected"),
    [
        ("openssl", "3.0.17", True),
        ("openssl", "3.0.18", False),
        ("openssl", "3.5.3", True),
        ("openssl", "3.6.0", False),
    ],
)
def test_each_series_of_a_library_is_mended_by_a_version_of_its_own(name: str, version: str, affected: bool) -> None:
    known = [one for one in json.loads(LIBRARIES.read_text()) if one["id"] == "CVE-2025-9230"]
    assert bool(audit(known, {canonicalize_name(name): Version(version)}, OF_LIBRARIES)[1]) is affected
