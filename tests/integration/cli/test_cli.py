"""The command line as a person or a script uses it: by processes where it matters, otherwise by `main`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer.core
import typer.main
from hardening.support.command import Command

from tidings import __version__
from tidings.broker.security import users
from tidings.broker.security.passwords import verify
from tidings.cli import COMMANDS, make_app, user
from tidings.cli.failures import report
from tidings.testing.broker_process import BrokerProcess
from tidings.testing.local_broker import BrokerThread


def spawn(*arguments: object, **options: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tidings.cli", *map(str, arguments)],
        stdin=options.get("stdin", subprocess.DEVNULL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def subscribed(process: "subprocess.Popen[str]") -> None:
    assert process.stderr is not None
    assert process.stderr.readline().startswith("subscribed to ")


def test_pub_and_sub_through_real_processes(tmp_path: Path, tidings: Command) -> None:
    with BrokerProcess(tmp_path) as broker:
        at = ("--url", broker.url)
        sub = spawn(
            "sub", "ticks.>", "--selector", "price > 20", "--json", "--count", 3, "--timeout", 60, "--stats", *at
        )
        subscribed(sub)
        lines = [{"properties": {"price": 21}, "body": "/w==", "body_encoding": "base64"}, {"properties": {"price": 1}}]
        pub = spawn("pub", "ticks.b", "--jsonl", *at, stdin=subprocess.PIPE)
        assert pub.communicate("\n".join(map(json.dumps, lines)), 60) == ("", "")
        assert tidings("pub", "ticks.xyz", "--prop", "price=50", "--prop", "stock='7'", "--body", "hallo", *at)[0] == 0
        assert tidings("pub", "ticks.c", "--prop", "price=30", "--persistent", *at)[0] == 0
        output, errors = sub.communicate(timeout=60)
        assert sub.returncode == 0
        first, second, third = map(json.loads, output.splitlines())
        assert len(first.pop("id")) == 32
        assert first == {
            "destination": "topic:ticks.b",
            "properties": {"price": 21},
            "body": "/w==",
            "body_encoding": "base64",
            "redelivered": False,
        }
        assert (second["properties"], second["body"]) == ({"price": 50, "stock": "7"}, "hallo")
        assert third["persistent"] is True
        assert "received 3 in" in errors
        # A queue keeps what nobody takes; the rate is held, and a receiver that waits in vain says so.
        status, _, stats = tidings("pub", "queue:work", "--count", 5, "--rate", 1000, "--stats", *at)
        assert (status, "published 5 in" in stats) == (0, True)
        assert tidings("sub", "queue:work", "--browse", *at) == (0, "queue:work\n" * 5, "")
        assert tidings("sub", "queue:work", "--browse", "--count", 6, *at)[0] == 1
        status, output, _ = tidings("sub", "queue:work", "--count", 5, "--timeout", 20, *at)
        assert (status, output.splitlines()) == (0, ["queue:work"] * 5)
        status, output, _ = tidings("sub", "queue:work", "--count", 1, "--timeout", 0.05, *at)
        assert (status, output) == (1, "")
        # What one writes the other reads.
        tidings("pub", "queue:work", "--body", "moved", "--prop", "n=1", *at)
        _, line, _ = tidings("sub", "queue:work", "--count", 1, "--timeout", 20, "--json", *at)
        move = spawn("pub", "queue:other", "--jsonl", *at, stdin=subprocess.PIPE)
        move.communicate(line, 30)
        _, output, _ = tidings("sub", "queue:other", "--count", 1, "--timeout", 20, *at)
        assert output == "queue:other n=1 moved\n"


def test_users_and_rules_by_the_command_line(tmp_path: Path, tidings: Command) -> None:
    rule = '[[access]]\nuser = "alice"\noperations = ["publish"]\ndestination = "a"\n'
    config, secret = tmp_path / "broker.toml", tmp_path / "password"
    secret.write_text("wonderland\n")
    config.write_text(rule)
    status, output, _ = tidings("user", "add", "alice", "--group", "g", "--config", config, stdin="wonderland\n")
    file = tmp_path / "tidings-data" / "users.toml"
    assert (status, output) == (0, f"added alice to {file}\n")
    with BrokerProcess(tmp_path, rule) as broker:
        log_in = ("--url", broker.url, "--user", "alice", "--password-file", secret)
        assert tidings("pub", "a", *log_in) == (0, "", "")
        status, _, errors = tidings("pub", "b", *log_in)
        assert (status, errors) == (1, "tidings: E_FORBIDDEN: alice may not publish to topic:b\n")
        status, _, errors = tidings("sub", "a", *log_in)
        assert (status, errors) == (1, "tidings: E_FORBIDDEN: alice may not subscribe to topic:a\n")
        status, _, errors = tidings("pub", "a", "--url", broker.url, "--user", "alice", stdin="guess\n")
        assert (status, errors) == (1, "tidings: E_LOGIN: unknown user or wrong password\n")
        assert "wonderland" not in broker.text() + file.read_text()


@pytest.mark.parametrize("command", ["add", "passwd"])
def test_what_others_change_while_a_password_is_asked_for_stays(
    command: str, tmp_path: Path, tidings: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "users.toml"
    for name in ("al", "bob"):
        assert tidings("user", "add", name, "--no-password", "--file", path)[0] == 0

    def asked() -> str:
        users.edit(path, lambda now: now.without("bob"))
        return "secret"

    monkeypatch.setattr(user, "_new_password", asked)
    name = "new" if command == "add" else "al"
    assert tidings("user", command, name, "--file", path)[0] == 0
    assert set(users.load(path).by_name) == {"al", name}


def test_editing_users(tmp_path: Path, tidings: Command) -> None:
    file = ("--file", tmp_path / "users.toml")
    assert tidings("user", "add", "bob", "--no-password", "--group", "x", "--group", "y", *file)[0] == 0
    assert tidings("user", "add", "al", *file, stdin="one\n")[0] == 0
    assert tidings("user", "passwd", "al", *file, stdin="two\n")[0] == 0
    assert verify("two", users.load(tmp_path / "users.toml").by_name["al"].password)
    assert tidings("user", "list", *file)[1] == "al\nbob (certificate only) x y\n"
    assert tidings("user", "groups", "al", "--group", "z", "--group", "x", *file) == (0, "al is in x, z\n", "")
    assert tidings("user", "groups", "bob", *file) == (0, "bob is in no group\n", "")
    assert tidings("user", "list", *file)[1] == "al x z\nbob (certificate only)\n"
    assert tidings("user", "groups", "al", *file)[0] == 0
    status, _, told = tidings("user", "remove", "bob", *file)
    assert (status, told.endswith("continue to collect messages; see: tidings durable list --of bob\n")) == (0, True)
    for arguments, stdin, problem in (
        (("add", "al"), "x\n", "E_USER_EXISTS"),
        (("add", "a b"), "x\n", "E_USER_NAME"),
        (("add", "new"), "\n", "E_PASSWORD"),
        (("passwd", "bob"), "x\n", "E_USER_UNKNOWN"),
        (("remove", "bob"), "", "E_USER_UNKNOWN"),
        (("groups", "bob"), "", "E_USER_UNKNOWN"),
        (("groups", "al", "--group", "a b"), "", "E_USER_NAME"),
    ):
        status, _, errors = tidings("user", *arguments, *file, stdin=stdin)
        assert (status, problem in errors) == (2, True)
    assert tidings("user", "list", *file)[1] == "al\n"


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (("sub", "a", "--selector", "price >"), 2,
         "tidings: E_SELECTOR_SYNTAX at 7: expected a value, found the end\n  price >\n         ^\n"),
        (("sub", "queue:a", "--browse", "--durable", "d"), 2, "tidings: E_OPTIONS: --browse cannot be combined"),
        (("sub", "a..b"), 2, "tidings: E_DESTINATION_EMPTY at 2: a level is empty, in 'a..b'\n"),
        (("sub",), 2, "tidings: E_DESTINATION_EMPTY: no destination; give a topic, queue:NAME"),
        (("pub",), 2, "tidings: E_DESTINATION_EMPTY: no destination; give a topic, queue:NAME"),
        (("pub", "a.*"), 2, "tidings: E_DESTINATION_WILDCARD at 2: '*' is a wildcard, in 'a.*'\n"),
        (("pub", "a", "--prop", "x"), 2, "tidings: E_PROPERTY: 'x' is not a property; write name=value\n"),
        (("pub", "a", "--stdin", "--jsonl"), 2, "tidings: E_OPTIONS: "),
        (("pub", "a", "--stdin", "--user", "u"), 2, "tidings: E_OPTIONS: the input is used for messages"),
        (("pub", "a", "--url", "http://x"), 2, "tidings: E_URL: "),
        (("pub", "a", "--tls-ca", "x.pem"), 2, "tidings: E_URL: TLS options need"),
        (("pub", "a", "--url", "tidings+tls://127.0.0.1:1", "--tls-ca", "/none.pem"), 2, "tidings: E_TLS: cannot use"),
        (("pub", "a", "--user", "u", "--password-file", "/none"), 2, "tidings: E_PASSWORD_FILE: "),
        (("pub", "a", "--url", "tidings://127.0.0.1:1"), 1, "tidings: E_CONNECT: cannot connect to 127.0.0.1:1: "),
        (("broker", "--config", "/none.toml"), 2, "/none.toml: cannot be read"),
        (("broker", "--check", "--config", "/none.toml"), 2, "/none.toml: cannot be read"),
        (("broker", "--check", "--join", "127.0.0.1:²"), 2, "--join: '127.0.0.1:²' is not host:port, as in"),
        (("broker", "--check", "--join", ""), 2, "Usage: tidings broker"),
        (("pub", "a", "--count", "0"), 2, "Usage: tidings pub"),
        (("nonsense",), 2, "Usage: tidings"),
    ],
)  # fmt: skip
def test_errors_are_one_clear_line(tidings: Command, arguments: tuple[str, ...], status: int, error: str) -> None:
    found, output, errors = tidings(*arguments)
    assert (found, output) == (status, "")
    assert errors.startswith(error)
    assert "Traceback" not in errors


def test_check_tells_every_problem_or_what_will_run(tidings: Command, tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text("[[listeners]]\nport = 99999\n[metrics]\nprot = 1\n")
    status, _, errors = tidings("broker", "--check", "--config", config)
    assert status == 2
    assert errors.splitlines() == [
        f"{config}:2: listeners[0].port: 99999 is out of range; give a number from 0 to 65535",
        f"{config}:4: metrics.prot: unknown key; did you mean port?",
    ]
    config.write_text("")
    status, output, _ = tidings("broker", "--check", "--config", config, "--port", 7777)
    assert (status, output.splitlines()[0]) == (0, "listens on 127.0.0.1 port 7777 (native)")
    status, output, _ = tidings("broker", "--check", "--config", config, "--found")
    assert (status, output.splitlines()[-4:-2]) == (
        0,
        [
            "network tidings (bdrp): links on 127.0.0.1 port 7301, starts the network",
            "broker id: chosen at the first start",
        ],
    )
    config.write_text(
        "[broker]\nid = 3\n[network]\nname = 'n'\noverlay = 'pan'\njoin = '10.0.0.5:1'\ninsecure = true\n"
    )
    status, output, _ = tidings("broker", "--check", "--config", config)
    assert (status, output.splitlines()[-4:-2]) == (
        0,
        ["network n (bdrp): links on 127.0.0.1 port 7301, joins at 10.0.0.5:1", "broker id: 3"],
    )
    assert list(tmp_path.iterdir()) == [config]  # a check leaves nothing behind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[[listeners]]\ntls = true\n[tls]\ncertificate = 'no.pem'\n",
            ["4: tls.certificate, tls.key: {0}/no.pem cannot"],
        ),
        (
            "[[listeners]]\n[[listeners]]\nport = 1\nhost = '0.0.0.0'\n[[listeners]]\nport = 2\nhost = '10.0.0.1'\n",
            ["4: listeners[1].host: 0.0.0.0 is reach", "7: listeners[2].host: 10.0.0.1 is reach"],
        ),
        ("\n[console]\nenabled = true\nhost = '0.0.0.0'\n", ["4: console.host: 0.0.0.0 is reach"]),
        ("[network]\nname = 'n'\nsecret_file = 's'\n", ["3: network.secret_file: {0}/s cannot be read"]),
        (
            "[metrics]\ntls = true\n[tls]\ncertificate = 'no.pem'\n",
            ["4: tls.certificate, tls.key: {0}/no.pem cannot"],
        ),
        (
            "[network]\nname = 'n'\ncertificate = 'no.pem'\nca = 'ca.pem'\n",
            ["3: network.certificate, network.key: {0}/no.pem cannot"],
        ),
        ("[broker]\n[users]\nfile = '.'\n", ["3: users.file: {0} is a directory; name a file"]),
        ("\ufeff[network]\nname = 'n'\nsecret_file = 's'\n", ["3: network.secret_file: {0}/s cannot be read"]),
        ("a = [", ["1: not valid TOML: "]),
        ("[[listeners]]\nhost = 1", ["2: listeners[0].host: 1 is not text"]),
    ],
)
@pytest.mark.parametrize("options", [("--check",), ()])
def test_a_check_and_a_start_tell_the_line_of_what_other_files_show_to_be_wrong(
    tidings: Command, tmp_path: Path, text: str, expected: list[str], options: tuple[str, ...]
) -> None:
    config = tmp_path / "broker.toml"
    config.write_text(text)
    status, _, errors = tidings("broker", *options, "--config", config)
    assert status == 2
    assert len(errors.splitlines()) == len(expected)
    for line, beginning in zip(errors.splitlines(), expected, strict=True):
        assert line.startswith(f"{config}:{beginning.format(tmp_path)}")


def test_check_leaves_what_is_wrong_in_the_users_file_as_it_is(
    tidings: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broker.toml").write_text("[users]\nfile = 'users.toml'\n")
    assert tidings("broker", "--check", "--config", "broker.toml")[2].startswith("users.toml: cannot be read")


@pytest.mark.parametrize("command", [[], ["broker"], ["pub"], ["sub"], ["user", "add"], ["user", "list"]])
def test_help_has_an_example(tidings: Command, command: list[str]) -> None:
    status, output, _ = tidings(*command, "--help")
    assert status == 0
    assert not command or f"Example: tidings {' '.join(command)}" in " ".join(output.split())


def test_all_commands_are_listed_and_one_is_loaded(tidings: Command) -> None:
    _, output, _ = tidings("--help")
    assert all(f"\n  {name} " in output for name in COMMANDS)
    loaded = "import sys; from tidings.cli import main; sys.argv[1:] = ['pub', '--help']\ntry: main()\n"
    loaded += "except SystemExit: sys.exit('tidings.broker.server' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loaded], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_the_list_of_commands_has_the_first_sentence_of_each_and_loads_none(tidings: Command) -> None:
    root = typer.main.get_command(make_app())
    assert isinstance(root, typer.core.TyperGroup)
    told = {name: (one.help or "").split("\n\n")[0].replace("\n", " ") for name, one in root.commands.items()}
    assert told.keys() == COMMANDS.keys()
    assert [name for name, summary in COMMANDS.items() if not told[name].startswith(summary)] == []
    program = "import sys; from tidings.cli import main; sys.argv[1:] = ['--help']\ntry: main()\n"
    program += "except SystemExit: sys.exit('numpy' in sys.modules or 'tidings.cli.pub' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_a_package_that_is_missing_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(ModuleNotFoundError("No module named 'scipy'", name="scipy.optimize")) == 2
    assert capsys.readouterr().err.endswith("install it with: pip install 'tidings[capacity]'\n")
    with pytest.raises(ModuleNotFoundError):
        report(ModuleNotFoundError("No module named 'tidings.x'", name="tidings.x"))


@pytest.mark.parametrize("module", ["typer", "tidings.client", "tidings.cli.pub", "tidings.model.message"])
def test_an_interruption_while_modules_are_loaded_ends_it_silently(module: str) -> None:
    """As Ctrl-C does in the first second: whatever is being imported then."""
    program = f"""
import sys
class Interruption:
    def find_spec(self, name, *_):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interruption())
sys.argv[1:] = ["pub", "a", "--url", "tidings://127.0.0.1:1"]
from tidings.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path, tidings: Command) -> None:
    with BrokerProcess(tmp_path) as broker:
        sub = spawn("sub", "a", "--timeout", 30, "--url", broker.url)
        subscribed(sub)
        assert sub.stdout is not None
        assert sub.stderr is not None
        sub.stdout.close()
        assert tidings("pub", "a", "--url", broker.url)[0] == 0
        assert (sub.wait(30), sub.stderr.read()) == (0, "")
        sub.stderr.close()


def _without(closed: str, *arguments: object) -> "subprocess.Popen[str]":
    """The command, started by a shell that closes some of its standard files."""
    command = [sys.executable, "-m", "tidings.cli", *map(str, arguments)]
    return subprocess.Popen(["sh", "-c", f'exec "$@" {closed}', "sh", *command], stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("closed", [">&-", "<&-", "<&- >&- 2>&-"])
def test_no_socket_takes_the_place_of_a_standard_file_that_is_closed(closed: str) -> None:
    with BrokerThread() as broker:
        for arguments in (("pub", "queue:q", "--stdin", "--ids"), ("sub", "queue:q", "--count", 1, "--timeout", 30)):
            given = [one for one in arguments if one != "--stdin" or "<&-" in closed]
            process = _without(closed, *given, "--url", broker.url)
            assert "Traceback" not in process.communicate(timeout=60)[1]
            assert process.returncode == 0


def test_a_broker_without_standard_files_ends_as_it_is_asked_to(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text("[metrics]\nenabled = false\n")
    process = _without("<&- >&-", "broker", "--config", config, "--port", 0, "--data", tmp_path)
    assert process.stderr is not None
    while "ready" not in process.stderr.readline():
        assert process.poll() is None
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_body_is_the_bytes_that_were_given(tidings: Command) -> None:
    with BrokerThread() as broker:
        at = ("--url", broker.url)
        assert tidings("pub", "queue:q", "--body", os.fsdecode(b"\xff"), *at) == (0, "", "")
        found = json.loads(tidings("sub", "queue:q", "--count", 1, "--timeout", 30, "--json", *at)[1])
        assert (found["body"], found["body_encoding"]) == ("/w==", "base64")


def test_a_password_file_is_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes("pässword\n".encode())
    program = "import sys; from pathlib import Path; from tidings.cli.connecting import first_line\n"
    program += "assert first_line(Path(sys.argv[1])) == 'p\\xe4ssword'"
    command = [sys.executable, "-X", "utf8=0", "-c", program, str(tmp_path / "password")]
    environment = os.environ | {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run(command, env=environment, check=True, timeout=60)


def test_lines_before_a_wrong_one_are_published_and_counted(tidings: Command) -> None:
    def pub(*lines: str) -> str:
        process = spawn("pub", "-", "--jsonl", "--persistent", *at, stdin=subprocess.PIPE)
        output, errors = process.communicate("\n".join(lines), 60)
        assert (process.returncode, output) == (2, "")
        return errors

    with BrokerThread() as broker:
        at = ("--url", broker.url)
        good = '{"destination": "queue:q"}'
        assert pub(good, good, "{", good) == (
            "tidings: E_JSONL at 1: line 3: Expecting property name enclosed in double quotes; "
            "2 messages were published\n"
        )
        assert tidings("sub", "queue:q", "--browse", *at)[1] == "queue:q\n" * 2
        errors = pub('{"destination": "queue:p"}', '{"body": "x"}')
        assert errors.endswith("line 2: no destination; give one on the command line; 1 message was published\n")
        assert tidings("sub", "queue:p", "--browse", *at)[1] == "queue:p\n"
        lines = [json.dumps({"body": body * (17 << 20)}) for body in ("", "x", "")]
        large = spawn("pub", "queue:r", "--jsonl", *at, stdin=subprocess.PIPE)
        _, errors = large.communicate("\n".join(lines), 60)
        assert "E_MESSAGE_SIZE: line 2: " in errors
        assert errors.endswith("; 2 messages were published\n")


def test_who_publishes_hears_that_nobody_reads_the_ids(tidings: Command) -> None:
    with BrokerThread() as broker:
        pub = spawn("pub", "queue:q", "--ids", "--count", 2000, "--url", broker.url)
        assert pub.stdout is not None
        assert pub.stderr is not None
        pub.stdout.close()
        assert pub.wait(60) == 1
        errors = pub.stderr.read()
        pub.stderr.close()
        waiting = len(tidings("sub", "queue:q", "--browse", "--url", broker.url)[1].splitlines())
        closed = "tidings: E_OUTPUT: cannot write message ids: the output was closed"
        assert errors == f"{closed}; {waiting} messages were published\n"


def test_version(tidings: Command) -> None:
    assert tidings("--version") == (0, f"tidings {__version__}\n", "")


def test_event_types_are_added_shown_used_and_removed(tidings: Command) -> None:
    with BrokerThread() as broker:
        at = ("--url", broker.url)
        assert tidings("type", "add", "Trade", "price:float", *at) == (0, "added Trade\n", "")
        assert tidings("type", "add", "Sale", "buyer:string", "--parent", "Trade", *at)[0] == 0
        assert tidings("type", "list", *at)[1] == "Trade price:float\nSale (Trade) buyer:string\n"
        assert tidings("type", "show", "Sale", *at)[1] == "Trade > Sale\n  price: float\n  buyer: string\n"
        shown = json.loads(tidings("type", "show", "Sale", "--json", *at)[1])
        attributes = {"price": "float", "buyer": "string"}
        assert shown == {"name": "Sale", "ancestors": ["Trade"], "attributes": attributes, "version": 1}
        sub = spawn("sub", "--type", "Trade", "price > 20", "--count", 1, "--timeout", 60, "--json", *at)
        subscribed(sub)
        status, _, errors = tidings("pub", "--type", "Sale", "--prop", "price=30", *at)
        assert status == 2
        assert "E_EVENT_MISSING: attribute 'buyer' of event type 'Sale' is missing" in errors
        assert tidings("pub", "--type", "Sale", "--prop", "price=30", "--prop", "buyer=me", *at)[0] == 0
        got = json.loads(sub.communicate(timeout=60)[0])
        assert (got["type"], got["properties"]) == ("Sale", {"price": 30, "buyer": "me"})
        assert "E_TYPE_SUBTYPES" in tidings("type", "remove", "Trade", *at)[2]
        assert tidings("type", "remove", "Sale", *at) == (0, "removed Sale\n", "")
        assert json.loads(tidings("type", "list", "--json", *at)[1]) == [
            {"name": "Trade", "parent": None, "attributes": {"price": "float"}, "version": 1}
        ]
        for wrong in (("type", "add", "Gift", "price"), ("type", "add", "Gift", "price:number")):
            assert "E_TYPE_ATTRIBUTE" in tidings(*wrong, *at)[2]
        assert tidings("pub", "ticks.a", "--type", "Trade", *at)[0] == 2


def test_a_topology_that_is_no_text_is_refused(tidings: Command, tmp_path: Path) -> None:
    topology = tmp_path / "net.toml"
    topology.write_bytes(b"\xff\xfe")
    status, out, error = tidings("net", "start", topology, "--folder", tmp_path / "net")
    assert (status, out) == (2, "")
    assert "E_TOPOLOGY" in error
    assert "not text in UTF-8" in error
    assert not (tmp_path / "net").exists()


@pytest.mark.parametrize(
    ("text", "said"), [("", "the topology has no brokers"), (None, "cannot read {0}: No such file")]
)
def test_a_topology_without_brokers_or_without_a_file_is_refused(
    tidings: Command, tmp_path: Path, text: str | None, said: str
) -> None:
    topology = tmp_path / "net.toml"
    if text is not None:
        topology.write_text(text)
    status, _, error = tidings("net", "start", topology, "--folder", tmp_path / "net")
    assert status == 2
    assert error.startswith(f"tidings: E_TOPOLOGY: {said.format(topology)}")
    assert not (tmp_path / "net").exists()


@pytest.mark.parametrize(("kind", "size"), [("line", 99_999_999), ("full", 1001), ("waxman", 10_001)])
def test_topologies_have_a_size_that_a_machine_can_hold(tidings: Command, kind: str, size: int) -> None:
    status, output, error = tidings("net", "generate", kind, size)
    assert (status, output) == (2, "")
    assert error.startswith(f"tidings: E_GRAPH_SIZE: {size} brokers are too many")
