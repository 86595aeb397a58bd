"""The wheel in fresh environments outside the checkout: without extras and with one. `make wheel` tries all of them."""

import sys
from pathlib import Path

import pytest
from bench import install


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install.build_wheel(sys.executable, tmp_path_factory.mktemp("wheels"))


def test_without_extras_everything_but_the_optional_works(wheel: Path, tmp_path: Path) -> None:
    made = install.make_environment(sys.executable, wheel, "", tmp_path, compiled=False)
    assert "idle broker" in install.check_all(made)


def test_with_one_extra_only_its_packages_are_there(wheel: Path, tmp_path: Path) -> None:
    made = install.make_environment(sys.executable, wheel, "segments", tmp_path, compiled=False)
    install.check_packages(made)
    install.check_tutorial(made)


def test_a_client_needs_nothing_but_the_wheel(wheel: Path, tmp_path: Path) -> None:
    made = install.make_environment(sys.executable, wheel, install.CLIENT, tmp_path, compiled=False)
    assert "a client holds" in install.check_all(made)
