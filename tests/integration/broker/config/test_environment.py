"""Settings from environment variables go before those of the file, and are checked as those are."""

from pathlib import Path

import pytest

from tidings.broker.config.environment import without_settings
from tidings.broker.config.load import load, load_users_file, parse
from tidings.errors import ConfigError

FILE = '[broker]\nname = "file"\ndata = "here"\n[metrics]\nport = 1\n[[listeners]]\nport = 2\n'
WRONG = {
    ("METRICS__PORT", "70000"): "environment variable TIDINGS__METRICS__PORT: metrics.port: 70000 is out of range;",
    (
        "METRICS__PORT",
        "many",
    ): "TIDINGS__METRICS__PORT: metrics.port: 'many' is not a whole number",
    ("METRICS__PORT", "1\nport = 2"): "TIDINGS__METRICS__PORT: metrics.port: '1\\nport = 2' is not a whole number",
    (
        "METRICS__PROT",
        "1",
    ): "TIDINGS__METRICS__PROT: metrics.prot: unknown key; did you mean port?",
    ("METRIC__PORT", "1"): "TIDINGS__METRIC__PORT: metric: unknown key; did you mean metrics?",
    ("LISTENERS", "1883"): "environment variable TIDINGS__LISTENERS: listeners: 1883 is not a list",
    ("LISTENERS", '[{protocol = "smtp"}]'): "TIDINGS__LISTENERS: listeners[0].protocol: 'smtp' is not a supported",
    ("LISTENERS__0__PORT", "1883"): "TIDINGS__LISTENERS__0__PORT: listeners: {'0': {'port': 1883}} is not a list",
    ("BROKER__NAME__FIRST", "a"): "TIDINGS__BROKER__NAME__FIRST: broker.name: ",
    ("", "a"): "unknown key",
}


def test_the_environment_goes_before_the_file() -> None:
    environment = {
        "TIDINGS__BROKER__NAME": "[orders] = 7",  # a text is taken as it is
        "TIDINGS__METRICS__PORT": "0",
        "TIDINGS__LIMITS__LOGIN_SECONDS": "2.5",
        "TIDINGS__CONSOLE__ENABLED": "false",
        "TIDINGS__LISTENERS": '[{protocol = "mqtt", host = "0.0.0.0"}, {protocol = "stomp", port = 0}]',
        "TIDINGS__BROKER__ALTERNATIVES": '["a:7300", "b:7300"]',
        "TIDINGS_URL": "of another program",
    }
    found = parse(FILE, "f", environment=environment)
    assert (found.broker.name, found.broker.data, found.metrics.port) == ("[orders] = 7", "here", 0)
    assert found.limits.login_seconds == 2.5
    assert [(one.protocol, one.host, one.port) for one in found.listeners] == [
        ("mqtt", "0.0.0.0", 1883),
        ("stomp", "127.0.0.1", 0),
    ]
    assert found.broker.alternatives == ("a:7300", "b:7300")
    assert without_settings(environment) == {"TIDINGS_URL": "of another program"}


@pytest.mark.parametrize("variable", WRONG)
def test_what_is_wrong_names_the_variable(variable: tuple[str, str]) -> None:
    name, value = variable
    with pytest.raises(ConfigError) as refused:
        parse(FILE, "f", environment={f"TIDINGS__{name}": value})
    assert WRONG[variable] in str(refused.value)


def test_a_wrong_file_is_refused_whatever_the_environment_says() -> None:
    with pytest.raises(ConfigError, match="f:1: broker: 1 is not a table"):
        parse("broker = 1", "f", environment={"TIDINGS__BROKER__NAME": "a"})


def test_files_are_found_beside_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broker.toml").write_text(FILE)
    environment = {"TIDINGS__USERS__FILE": "staff.toml"}
    assert load(tmp_path / "broker.toml", environment=environment).users_file == tmp_path / "staff.toml"
    assert load_users_file(tmp_path / "broker.toml", environment) == tmp_path / "staff.toml"
    assert load_users_file(None, {"TIDINGS__BROKER__DATA": "/data"}) == Path("/data/users.toml")
    monkeypatch.setenv("TIDINGS__BROKER__NAME", "of the process")
    assert load(None).broker.name == "of the process"
