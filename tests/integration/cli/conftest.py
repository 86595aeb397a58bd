import io
import sys

import pytest
from hardening.support.command import Command

from tidings.broker import logs
from tidings.cli import main


@pytest.fixture
def tidings(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setattr(logs, "set_up", lambda *_, **__: None)  # the tests' own logging stays as it is

    def command(*arguments: object, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tidings", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capfd.readouterr()

    return command
