"""Completion of commands and options by shells: right, and quick."""

import os
import subprocess
import sys

import pytest

from tidings.cli import COMMANDS


def completed(words: str, **environment: str) -> list[str]:
    """The words that bash is offered."""
    typed = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1), "_TIDINGS_COMPLETE": "complete_bash"}
    found = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tidings.cli"],
        env=os.environ | typed | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    loaded = {line.rpartition("|")[2].strip() for line in found.stderr.splitlines()}
    assert not {"scipy", "pyarrow", "nicegui"} & loaded, "completion must be quick"
    return found.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("tidings qu", {"queue"}),
        ("tidings ", set(COMMANDS)),
        ("tidings queue p", {"purge"}),
        ("tidings queue list --cont", {"--containing"}),
        ("tidings nothing --x", set()),
    ],
)
def test_shells_complete_commands_and_options(words: str, offered: set[str]) -> None:
    assert set(completed(words)) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_offered_for_each_shell(shell: str) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "tidings.cli", "--show-completion", shell],
        env=os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "_TIDINGS_COMPLETE" in found.stdout
