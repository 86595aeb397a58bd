from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.broker.config.docs import renewed
from tidings.broker.config.load import load, load_users_file, parse
from tidings.broker.config.network import NetworkTable, PeerTable, peers_of
from tidings.broker.config.rules import exposed
from tidings.broker.config.tables import PROTOCOLS, Configuration, LimitsTable
from tidings.cli.broker import SESSIONS
from tidings.delivery.policy import Overflow, QueuePolicy
from tidings.delivery.redelivery_delay import Backoff
from tidings.errors import ConfigError, UsageError
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.predicate import Predicate
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings
from tidings.routing.covering.policies import make_policy
from tidings.routing.covering.selective import Selective, SelectiveOptions

DOCS = Path(__file__).parents[4] / "docs"

WRONG = {
    "[[listeners]]\nport = 70000": "f:2: listeners[0].port: 70000 is out of range; give a number from 0 to 65535",
    "[[listeners]]\nport = '1'": "f:2: listeners[0].port: '1' is not a whole number; give a number from 0 to 65535",
    "[[listeners]]\nport = true": "f:2: listeners[0].port: true is not a whole number; give a number from 0 to 65535",
    "[listeners]\nport = 1": "f:1: listeners: {'port': 1} is not a list; write [[listeners]]",
    "listeners = [1]": "f:1: listeners[0]: 1 is not a table; write [listeners[0]] and its keys",
    "broker = 1": "f:1: broker: 1 is not a table; write [broker] and its keys",
    "\n\nbrokr = {}": "f:3: brokr: unknown key; did you mean broker?",
    "[limits]\nxyz = 1": "f:2: limits.xyz: unknown key; known keys: connections_max",
    "[limits]\nlogin_seconds = nan": "f:2: limits.login_seconds: nan is out of range; give a number from 0.1 to 3600",
    "[logging]\nlevel = 'inf'": "f:2: logging.level: 'inf' is unknown; did you mean info?",
    "[logging]\nlevel = 'loud'": "f:2: logging.level: 'loud' is unknown; give one of debug, info, warning, error",
    "[broker]\nname = 'a\\nb'": None,
    '[broker]\nname = "a\\nb"': "f:2: broker.name: it contains a control character; remove it",
    "[broker]\ndata = ''": "f:2: broker.data: it is empty; name a directory",
    "[[listeners]]\nprotocol = 'smtp'": "f:2: listeners[0].protocol: 'smtp' is not a supported protocol;",
    "[[listeners]]\ntls = true": "f:2: listeners[0].tls: TLS needs a certificate; set certificate and key in [tls]",
    "[[listeners]]\n[[listeners]]\nhost='127.0.0.1'": "f:2: listeners[1].port: port 7300 is used by an earlier",
    "listeners = []": "f:1: listeners: no listener: no client could connect; remove the key, or add",
    "[metrics]\ntls = true": "f:2: metrics.tls: TLS needs a certificate; set certificate and key in [tls]",
    "[console]\nenabled = true\nport = 1\ntls = true": "f:4: console.tls: TLS needs a certificate; set certificate",
    "[tls]\ncertificate = 'c'\n[metrics]\ntls = true\n[console]\nenabled = true": "f:4: metrics.tls: metrics and "
    "console share port 8700, but only one of them uses TLS; set tls in both, or choose another port",
    "[tls]\nkey = 'k'": "f:2: tls.key: a key without a certificate; set tls.certificate",
    "[tls]\nrequire_client = true": "f:2: tls.require_client: no authority to verify client certificates; set",
    "[delivery]\ndead_letters = 'a'": "f:2: delivery.dead_letters: not a queue; name a queue: queue:dead-letters",
    "[delivery]\ndead_letters = 'queue:'": "f:2: delivery.dead_letters: a level is empty",
    "[delivery]\nslow_policies = ['drop']": "f:2: delivery.slow_policies[0]: 'drop' is unknown",
    "[[policies]]\ndestination = 'orders'": "f:2: policies[0].destination: policies apply to queues; give a pattern",
    "[[policies]]\nmessages_max = 1": "f:1: policies[0].destination: a level is empty, in",
    "[[policies]]\ndestination='queue:a'\ndead_letters='a'": "f:3: policies[0].dead_letters: not a queue; name a q",
    "[[policies]]\ndestination='queue:a'\noverflow='drop'": "f:3: policies[0].overflow: 'drop' is unknown",
    "[[access]]\noperations = ['publish']\ndestination = 'a'": "f:1: access[0]: a rule names either a user or a group",
    "[[access]]\nuser = 'a'\ndestination = 'a'": "f:1: access[0]: a rule without operations has no effect",
    "[[access]]\nuser='a'\noperations=['manage']\ndestination='a..b'": "f:4: access[0].destination: a level is empty",
    "[[access]]\nuser='a'\noperations=['publish']\ndestination='a'\nselector='b=1'": "f:5: access[0].selector: a",
    "[[access]]\nuser='a'\noperations=['subscribe']\ndestination='a'\nselector='b='": "f:5: access[0].selector: E_",
    "[network]\nport = 1": "f:1: network: the network has no name; set name",
    "[network]\nname = 'n'": "f:1: network: peers would not be authenticated; configure a link secret (secret_file)",
    "[network]\nname = 'n'\ninsecure = true\nsecret_file = 's'": "f:3: network.insecure: contradicts secret_file",
    "[network]\nname = 'n'\ncertificate = 'c'": "f:3: network.certificate: certificate and ca are needed together",
    "[network]\nname = 'n'\ninsecure=true\nencoding_bits = 100": "f:4: network.encoding_bits: 100 is not a multi",
    "[network]\nname = 'n'\ninsecure=true\nrouting = 'rip'": "f:4: network.routing: 'rip' is unknown; give one of",
    "[network]\nname='n'\ninsecure=true\nrouting='flooding'\nunicast='distance-vector'": "f:4: network.routing: flood",
    "[network]\nname = 'n'\ninsecure=true\nport = 7300": "f:4: network.port: port 7300 is used by a listener",
    "[network]\nname='n'\ninsecure=true\n[[network.peers]]\naddress='a'": "f:5: network.peers[0].address: 'a' is not",
    "[network]\nname='n'\ninsecure=true\n[[network.peers]]\naddress='a:²'": "f:5: network.peers[0].address: 'a:²' is",
    "[network]\nname='n'\ninsecure=true\noverlay='pan'\njoin='a:²'": "f:5: network.join: not host:port; write it as in",
    "[network]\nname='n'\ninsecure=true\noverlay='pan'\naddress='a b:1'": "f:5: network.address: not host:port; write",
    "[network]\nname='n'\ninsecure=true\n[[network.peers]]\ncost = 1": "f:4: network.peers[0]: neither address",
    "[network]\nname='n'\ninsecure=true\n[[network.peers]]\nrouter = 1": "f:5: network.peers[0].router: 1 is this",
    "[network]\nname='n'\ninsecure=true\npeers = [{router=2}, {router=2}]": "f:4: network.peers[1].router: 2 is named",
    "[network]\nname='n'\ninsecure=true\nadvertise=['queue:a']": "f:4: network.advertise[0]: queues are not advertised",
    "[network]\nname='n'\ninsecure=true\nadvertise=['a..b']": "f:4: network.advertise[0]: a level is empty",
    "[network]\nname='n'\ninsecure=true\npolicy='eager'": "f:4: network.policy: 'eager' is unknown; give one of none",
    "[metrics]\nport = 7300": "f:2: metrics.port: port 7300 is used by a listener; choose another port",
    "[[listeners]]\nport = 8700": "f: metrics.port: port 8700 is used by a listener; choose another port",
    "[console]\nenabled = true\nport = 61613": "f:3: console.port: port 61613 is used by a listener; choose another",
    "[network]\nname = 'n'\ninsecure = true\n[metrics]\nport = 7301": "f:5: metrics.port: port 7301 is used by",
    "[metrics]\nenabled = false\nport = 7300\n[x]": "f:4: x: unknown key",
    "[limits]\ncredit_max = 10\ncredit_default = 11": "f:3: limits.credit_default: 11 is above credit_max, 10; lower",
    "[limits]\nmessages_bytes_max = 262144\npinned_bytes_max = 131073": "f:3: limits.pinned_bytes_max: 131073 is more",
    "[limits]\nmessages_bytes_max = 134217728": "f:1: limits.pinned_bytes_max: 134217728 is more than half of",
    "[[listeners]]\nprotocol='websocket'\norigins=['*', 'foo']": "f:3: listeners[0].origins[1]: 'foo' is not a w",
    "[[listeners]]\nprotocol='websocket'\norigins=['https://a.example/x']": "f:3: listeners[0].origins[0]: 'http",
    "[[listeners]]\nprotocol='websocket'\norigins=['https://A.example']": "f:3: listeners[0].origins[0]: 'https:",
    f"[[access]]\nuser='a'\noperations=['publish']\ntype='{'x' * 300}'": "f:4: access[0].type: an attribute name must",
    "[[access]]\nuser='a'\noperations=['publish']\ntype='Trade.Sale.Trade'": "f:4: access[0].type: Trade is name",
    "[[access]]\nuser='a'\noperations=['trace']\ntype='Trade'": "f:3: access[0].operations: the right to trace",
    "network={name='n',insecure=true}\naccess=[{user='a',operations=['define'],type='T'}]": "f:2: access[0].type: ro",
    "[tracking]\nbits = 128\nbits_max = 64": "f:3: tracking.bits_max: 64 is below bits, 128; raise it to at least bits",
    "a = ": "f:1: not valid TOML: Invalid value",
    "\na = 1\na = 2": "f:3: not valid TOML: Cannot overwrite a value",
    "a = 2020-99-99": "f:1: not valid TOML",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said_with_line_key_and_remedy(text: str) -> None:
    expected = WRONG[text]
    if expected is None:
        assert parse(text, "f").broker.name == "a\\nb"
        return
    with pytest.raises(ConfigError) as caught:
        parse(text, "f")
    assert caught.value.code == "E_CONFIG"
    assert caught.value.problems[0].startswith(expected)
    assert "; " in caught.value.problems[0]


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("[[listeners]]\nport = -1\nhots = 'x'\n[metrics]\nport = 'a'\n[nothing]\n", "f")
    assert [problem.split(": ")[0] for problem in caught.value.problems] == ["f:6", "f:3", "f:2", "f:5"]


def read_or_refused(text: str) -> bool:
    """Whether it is read, or refused with nothing but problems of this file."""
    try:
        return isinstance(parse(text, "f"), Configuration)
    except ConfigError as error:
        return bool(error.problems) and all(problem.startswith("f:") for problem in error.problems)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert read_or_refused(text)


NAMES = st.sampled_from([one.name for one in fields(Configuration)])
SCALARS = st.sampled_from(
    ["1", "-1", "1.5", "true", "''", "'a'", "'*'", "[]", "['publish']", "{}", "[{}]", "1979-05-27"]
)
KEYS = st.sampled_from(
    ["port", "host", "user", "group", "operations", "destination", "selector", "tls", "level", "certificate", "id"]
)


@given(st.lists(st.tuples(NAMES, st.booleans(), st.dictionaries(KEYS, SCALARS, max_size=4)), max_size=4))
def test_any_toml_is_read_or_refused(tables: list[tuple[str, bool, dict[str, str]]]) -> None:
    text = ""
    for name, many, keys in tables:
        text += f"[[{name}]]\n" if many else f"[{name}]\n"
        text += "".join(f"{key} = {value}\n" for key, value in keys.items())
    assert read_or_refused(text)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(ConfigError):
        parse("a = " + "[" * 20_000 + "]" * 20_000, "f")


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    bad, long = tmp_path / "bad.toml", tmp_path / "long.toml"
    bad.write_bytes(b"\n\xff")
    long.write_bytes(b"#" * (2 << 20))
    for path, reason in ((bad, "bad.toml:2: not UTF-8"), (long, "longer than"), (tmp_path / "no", "cannot be read")):
        with pytest.raises(ConfigError, match=reason):
            load(path)


def test_listeners_that_name_no_port_have_that_of_their_protocol() -> None:
    text = "".join(f"[[listeners]]\nprotocol = '{name}'\n" for name in PROTOCOLS)
    found = {one.protocol: one.port for one in parse(text, "f").listeners}
    assert found == {
        "native": 7300,
        "stomp": 61613,
        "websocket": 61614,
        "amqp": 5672,
        "mqtt": 1883,
        "mqtt-websocket": 8083,
        "http": 8090,
    }


def test_a_console_that_is_not_told_where_is_where_the_metrics_are() -> None:
    one = parse("console = true\n[metrics]\nport = 9000\nhost = '127.0.0.2'", "f")
    assert (one.console.host, one.console.port, one.pages_share_port) == ("127.0.0.2", 9000, True)
    two = parse("[console]\nenabled = true\nport = 9001\n[metrics]\nport = 9000", "f")
    assert (two.console.port, two.metrics.port, two.pages_share_port) == (9001, 9000, False)
    three = parse("console = true\n[metrics]\nenabled = false\nport = 9000", "f")
    assert three.console.port == 8700


def test_the_users_file_is_found_beside_other_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text("[users]\nfile = 'people.toml'\n[[listeners]]\nport = 70000\n[nonsense]\na = 1")
    assert load_users_file(path) == tmp_path / "people.toml"
    path.write_text("[broker]\ndata = 'here'\n[tls]\ncertificate = 7")
    assert load_users_file(path) == tmp_path / "here" / "users.toml"
    path.write_text("[users]\nfile = 7\n[[listeners]]\nport = 70000")
    with pytest.raises(ConfigError, match=r"broker.toml:2: users.file") as caught:
        load_users_file(path)
    assert "listeners" not in str(caught.value)


def test_origins_are_written_as_browsers_do() -> None:
    origins = ["*", "null", "https://shop.example", "http://[::1]:8000", "moz-extension://1a2b"]
    (listener,) = parse(f"[[listeners]]\nprotocol = 'websocket'\norigins = {origins}", "f").listeners
    assert list(listener.origins) == origins


def test_larger_filters_need_no_other_limit() -> None:
    assert parse(f"[tracking]\nbits = {1 << 21}\ncapacity = 60000", "f").tracking.bits == 1 << 21


def test_the_mark_that_some_editors_begin_a_file_with_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text("[broker]\nname = 'marked'\n", encoding="utf-8-sig")
    assert load(path).broker.name == "marked"


def test_without_a_file_the_defaults_are_safe() -> None:
    configuration = load(None)
    assert [(one.host, one.port) for one in configuration.listeners] == [
        ("127.0.0.1", 7300),
        ("127.0.0.1", 61613),
        ("127.0.0.1", 5672),
        ("127.0.0.1", 1883),
    ]
    assert (configuration.metrics.host, configuration.metrics.port) == ("127.0.0.1", 8700)
    assert exposed(configuration) == []
    assert configuration.limits_of() == BrokerLimits()
    assert configuration.settings() == NodeSettings(last_values=True)  # as MQTT asks for


def test_every_limit_and_setting_can_be_configured() -> None:
    keys = {one.name for one in fields(LimitsTable)}
    elsewhere = {"broker_id", "deliveries_max", "dead_letters", "bury_expired", "slow_policies", "policies"}
    elsewhere |= {"alternatives", "quotas", "subscription_scope", "last_values"}  # where a listener speaks MQTT
    elsewhere |= {"pieces"}  # of the node's own steps: only simulations draw them
    assert {one.name for one in fields(BrokerLimits)} | {one.name for one in fields(NodeSettings)} == keys | elsewhere


def test_what_is_configured_reaches_the_broker(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(
        "[broker]\nid = 9\ndata = 'd'\n[limits]\nconnections_max = 3\ncredit_max = 5\nlogin_seconds = 2\n"
        "[delivery]\ndead_letters = 'queue:dead'\ndeliveries_max = 2\nslow_policies = ['disconnect']\n"
        "[[policies]]\ndestination = 'queue:a.>'\nbytes_max = 7\noverflow = 'dead-letter'\ndead_letters = 'queue:b'\n"
        "redelivery_first_ms = 100\nredelivery_factor = 3\nredelivery_most_ms = 900\nredelivery_jitter = 0.5\n"
        "single_active = true\n"
    )
    configuration = load(path)
    assert configuration.limits_of() == BrokerLimits(connections_max=3, login_seconds=2.0)
    settings = configuration.settings()
    assert (settings.broker_id, settings.credit_max, settings.deliveries_max) == (9, 5, 2)
    assert (str(settings.dead_letters), settings.slow_policies) == ("queue:dead", frozenset({"disconnect"}))
    assert configuration.users_file == tmp_path / "d" / "users.toml"
    pattern, grave = DestinationPattern.parse("queue:a.>"), Destination.parse("queue:b")
    limited = QueuePolicy(pattern, bytes_max=7, overflow=Overflow.DEAD_LETTER, dead_letters=grave)
    assert settings.policies == (replace(limited, backoff=Backoff(100, 3.0, 900, 0.5), single_active=True),)


def test_a_network_is_configured(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("0123456789abcdef0123\n")
    (tmp_path / "key").write_text("a key that nobody guesses")
    path = tmp_path / "broker.toml"
    path.write_text(
        "[broker]\nid = 9\n[network]\nname = 'n'\nport = 0\nsecret_file = 'secret'\nencoding = 'vectors'\n"
        "encoding_bits = 512\nencoding_key_file = 'key'\nheartbeat_ms = 100\nbroadcast_above = 7\n"
        "encoding_alternatives_max = 40\n"
        "[[network.peers]]\naddress = '[::1]:7301'\nrouter = 3\ncost = 4\n[[network.peers]]\nrouter = 5\n"
    )
    found = load(path)
    peers = peers_of(found.network, found.broker.id)
    assert peers is not None
    assert (peers.network.router, peers.network.dials, peers.network.costs) == (9, (("[::1]:7301", 3),), {3: 4})
    assert (peers.network.link.heartbeat_ms, peers.network.link.dead_ms) == (100, 600)
    assert (peers.network.encoding.encoding.bits, peers.network.encoding.vectors) == (512, True)
    assert peers.network.encoding.encoding.key != 0
    one_of_40 = Predicate.of(Constraint("a", Op.IN, tuple(range(40))))
    assert len(peers.network.encoding.encoding.conjunction_elements(one_of_40.conjunctions[0])) == 40
    assert (peers.links.secret, peers.links.port) == (b"0123456789abcdef0123", 0)
    assert peers_of(NetworkTable(), 1) is None
    (tmp_path / "key").write_text("summer2026")
    with pytest.raises(ConfigError, match=r"network\.encoding_key_file: .* has 10 bytes, fewer than 16"):
        peers_of(found.network, 9)
    (tmp_path / "key").write_text("a key that nobody guesses")
    (tmp_path / "secret").write_text("short\n")
    with pytest.raises(ConfigError, match=r"network\.secret_file: .* has 5 bytes, fewer than 16"):
        peers_of(found.network, 9)
    (tmp_path / "secret").unlink()
    with pytest.raises(ConfigError, match=r"network\.secret_file: .* cannot be read"):
        peers_of(found.network, 9)


def test_options_of_selective_pruning_reach_the_scheme() -> None:
    table = NetworkTable(
        name="n",
        insecure=True,
        routing="covering",
        unicast="link-state",
        cover_advertisements=True,
        pruning_phi=0.8,
        pruning_count_small=2,
        pruning_window_ms=1000.0,
        pruning_window_size=50,
        pruning_bucket_depth=3.0,
    )
    settings = table.settings(1)
    assert settings.selective == SelectiveOptions(0.8, 2, 1000.0, 50, 3.0)
    assert settings.cover_advertisements
    policy = make_policy("selective", settings.selective)
    assert isinstance(policy, Selective)
    assert (policy.options, policy.window.age_ms, policy.window.size_max) == (settings.selective, 1000.0, 50)
    with pytest.raises(UsageError, match="phi is a share"):
        SelectiveOptions(phi=1.5)


def test_the_reference_is_up_to_date() -> None:
    text = (DOCS / "configuration.md").read_text()
    assert "None" not in text
    assert renewed(text) == text, "run: python -m tidings.broker.config.docs docs/configuration.md"


def test_the_example_loads_with_and_without_its_comments() -> None:
    text = (DOCS / "broker.toml").read_text()
    assert parse(text, "broker.toml", protocols=tuple(SESSIONS)).broker.id == 7
    shown = "\n".join(
        line.removeprefix("# ") if " = " in line or line.startswith("# [") else line for line in text.splitlines()
    )
    full = parse(shown.replace("\n#\n", "\n"), "broker.toml", protocols=tuple(SESSIONS))
    assert [rule.user or rule.group for rule in full.access] == ["*", "traders", "alice"]
    assert full.tls.certificate == "server.pem"
    assert full.network.peers == (PeerTable("10.0.0.1:7301", 1),)


def test_a_peer_has_one_address_or_a_list_of_them() -> None:
    network = '[network]\nname = "n"\ninsecure = true\n[[network.peers]]\naddress = '
    single, several = (parse(network + text, "f") for text in ('"a:1"', '["a:1", "b:2"]'))
    assert [one.network.peers[0].address for one in (single, several)] == ["a:1", "a:1,b:2"]
    peers = peers_of(several.network, 1)
    assert peers is not None
    assert peers.network.dials == (("a:1,b:2", None),)
    for wrong in ('["a:1", "b"]', "[]", "[1]"):
        with pytest.raises(ConfigError, match="address"):
            parse(network + wrong, "f")
