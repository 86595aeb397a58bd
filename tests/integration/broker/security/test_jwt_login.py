"""Logins by token: what is accepted and what is not, by every protocol; how they end."""

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import paho.mqtt.client as mqtt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from paho.mqtt.enums import CallbackAPIVersion
from proton import ConnectionException
from proton.utils import BlockingConnection

from tidings.broker.config.jwt import ALGORITHMS, JwtTable
from tidings.broker.config.load import load
from tidings.broker.security.access import AccessRules, Rule
from tidings.broker.security.jwt_login import RETRY_SECONDS, JwtVerifier, TokenUser
from tidings.broker.security.passwords import Cost
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.security.users import Users, add
from tidings.broker.startup import StartupOptions, prepare
from tidings.client import connect
from tidings.errors import ConfigError, ConnectionLostError, SecurityError
from tidings.model.destination import DestinationPattern
from tidings.node.limits import BrokerLimits
from tidings.node.protocol_session import Hello
from tidings.protocols.amqp.sasl import INIT, SASL_HEADER, Sasl, sasl_frame
from tidings.protocols.amqp.wire.types import symbol
from tidings.sync import connect as connect_blocking
from tidings.testing.local_broker import BrokerThread, local_broker, run

RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
EDWARDS = ed25519.Ed25519PrivateKey.generate()
KEYS: dict[str, Any] = {"RS256": RSA, "ES256": EC, "EdDSA": EDWARDS, "PS256": RSA}
AUDIENCE = "tidings"
CHEAP = Cost(n=16, r=8, p=1)


def token(algorithm: str = "ES256", key: Any = None, *, kid: str | None = None, **claims: Any) -> str:
    content = {"sub": "ann", "aud": AUDIENCE, "exp": time.time() + 600, "groups": ["traders"]} | claims
    content = {name: value for name, value in content.items() if value is not None}
    return jwt.encode(content, key or KEYS[algorithm], algorithm, headers=None if kid is None else {"kid": kid})


def jwks(**keys: Any) -> bytes:
    """Of private keys by their names; their public parts."""
    makers: dict[str, Any] = {
        "RSA": jwt.algorithms.RSAAlgorithm,
        "EC": jwt.algorithms.ECAlgorithm,
        "OKP": jwt.algorithms.OKPAlgorithm,
    }
    listed = []
    for name, key in keys.items():
        kind = "RSA" if isinstance(key, rsa.RSAPrivateKey) else "EC" if isinstance(key, type(EC)) else "OKP"
        listed.append(json.loads(makers[kind].to_jwk(key.public_key())) | {"kid": name, "use": "sig"})
    return json.dumps({"keys": listed}).encode()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_bytes(jwks(rsa=RSA, ec=EC, ed=EDWARDS))
    return path


def table(keys: Path | str, **options: Any) -> JwtTable:
    return replace(JwtTable(), keys=str(keys), audience=AUDIENCE, **options)


def code(verifier: JwtVerifier, text: str) -> str:
    with pytest.raises(SecurityError) as caught:
        verifier.verify(text)
    return f"{caught.value.code} {caught.value.reason}"


# --- what is accepted -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", list(KEYS))
@pytest.mark.parametrize("kid", [None, "named"])
def test_a_token_is_a_user_with_groups(file: Path, algorithm: str, kid: str | None) -> None:
    name = {"RS256": "rsa", "PS256": "rsa", "ES256": "ec", "EdDSA": "ed"}[algorithm]
    verifier = JwtVerifier(table(file, algorithms=ALGORITHMS))
    user = verifier.verify(token(algorithm, kid=kid and name))
    assert (user.name, user.groups) == ("ann", frozenset({"traders"}))
    assert 600 < user.expires_s - time.time() < 640


def test_a_key_as_pem(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(EC.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert JwtVerifier(table(path)).verify(token()).name == "ann"


@pytest.mark.parametrize(
    ("groups", "expected"),
    [(["a", "b", 3, "not a name!"], {"a", "b"}), ("a b", {"a", "b"}), (None, set()), ({"a": 1}, set())],
)
def test_groups_are_a_list_or_a_text(file: Path, groups: object, expected: set[str]) -> None:
    assert JwtVerifier(table(file)).verify(token(groups=groups)).groups == expected


def test_claims_can_be_inside_of_claims(file: Path) -> None:
    verifier = JwtVerifier(table(file, user_claim="preferred_username", groups_claim="realm_access.roles"))
    found = verifier.verify(token(preferred_username="bob", realm_access={"roles": ["clerks"]}))
    assert (found.name, found.groups) == ("bob", frozenset({"clerks"}))


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"exp": time.time() - 600}, "expired"),
        ({"exp": None}, "exp"),
        ({"nbf": time.time() + 600}, "not yet valid"),
        ({"aud": "another"}, "udience"),
        ({"aud": None}, "aud"),
        ({"iss": "https://evil.example"}, "ssuer"),
        ({"iss": None}, "iss"),
        ({"sub": None}, "sub"),
        ({"sub": "a b\n"}, "not the name of a user"),
        ({"sub": ""}, "not the name of a user"),
    ],
)
def test_a_token_that_does_not_fit_is_refused(file: Path, claims: dict[str, Any], said: str) -> None:
    verifier = JwtVerifier(table(file, issuer="https://id.example"))
    assert verifier.verify(token(iss="https://id.example")).name == "ann"
    found = code(verifier, token(**{"iss": "https://id.example"} | claims))
    assert found.startswith("E_LOGIN_TOKEN ")
    assert said in found


def test_only_the_algorithms_of_the_configuration_and_keys_of_their_type(file: Path) -> None:
    verifier = JwtVerifier(table(file, algorithms=("RS256",)))
    assert verifier.verify(token("RS256")).name == "ann"
    for other in ("ES256", "PS256", "EdDSA"):
        assert "not allowed" in code(verifier, token(other))
    assert "not allowed" in code(verifier, token("HS256", "a secret of enough bytes for this, surely so"))
    unsigned = token("RS256").split(".")
    none = jwt.encode({"sub": "ann", "aud": AUDIENCE, "exp": time.time() + 60}, "", "none").split(".")
    assert "not allowed" in code(verifier, f"{none[0]}.{none[1]}.")
    assert "ignature" in code(verifier, f"{unsigned[0]}.{unsigned[1]}.AAAA")
    assert "ignature" in code(verifier, token("RS256", rsa.generate_private_key(65537, 2048)))
    assert "no key" in code(verifier, token("RS256", kid="ec"))


@pytest.mark.parametrize("text", ["eyJ..", "eyJhbGciOiJFUzI1NiJ9.e30.x", "eyJ" + "A" * 20_000 + ".b.c"])
def test_rubbish_is_refused(file: Path, text: str) -> None:
    assert code(JwtVerifier(table(file)), text).startswith("E_LOGIN_TOKEN ")


# --- keys -------------------------------------------------------------------------------------------------------------


def test_keys_of_a_url_are_fetched_when_needed_and_again_for_new_ones() -> None:
    now, documents, asked = [0.0], [jwks(a=EC)], list[str]()

    def fetch(url: str) -> bytes:
        asked.append(url)
        return documents[-1]

    verifier = JwtVerifier(table("https://id.example/keys", refresh_seconds=100.0), fetch, lambda: now[0])
    assert not asked, "not before somebody logs in"
    for _ in range(3):
        verifier.verify(token(kid="a"))
    assert len(asked) == 1
    fresh = ec.generate_private_key(ec.SECP256R1())
    documents.append(jwks(a=EC, b=fresh))
    assert "no key" in code(verifier, token(key=fresh, kid="b")), "asked for again too soon"
    now[0] += RETRY_SECONDS
    assert verifier.verify(token(key=fresh, kid="b")).name == "ann"
    now[0] += 100
    verifier.verify(token(kid="a"))
    assert len(asked) == 3


def test_a_url_that_cannot_be_fetched_leaves_the_keys_that_are_known() -> None:
    now, fails = [0.0], [True]

    def fetch(_: str) -> bytes:
        if fails[0]:
            raise OSError("no route to host")
        return jwks(a=EC)

    verifier = JwtVerifier(table("https://id.example/keys", refresh_seconds=100.0), fetch, lambda: now[0])
    assert code(verifier, token()).startswith("E_LOGIN_KEYS ")
    fails[0], now[0] = False, now[0] + RETRY_SECONDS
    assert verifier.verify(token()).name == "ann"
    fails[0], now[0] = True, now[0] + 1_000
    assert verifier.verify(token()).name == "ann"


@pytest.mark.parametrize(
    "document", [b"{}", b"{", b"", b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}', b"-----BEGIN PUBLIC KEY-----\n"]
)
def test_a_file_without_public_keys_is_refused(tmp_path: Path, document: bytes) -> None:
    path = tmp_path / "keys"
    path.write_bytes(document)
    with pytest.raises(ConfigError, match=r"jwt\.keys"):
        JwtVerifier(table(path))


def test_what_is_configured_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text("[jwt]\nkeys = 'http://id.example/keys'\nalgorithms = []\nuser_claim = ''\n")
    with pytest.raises(ConfigError) as caught:
        load(path)
    text = "\n".join(caught.value.problems)
    assert all(word in text for word in ("jwt.keys", "jwt.audience", "jwt.algorithms", "jwt.user_claim"))
    path.write_text("[jwt]\nkeys = 'keys.json'\naudience = 'tidings'\n")
    (tmp_path / "keys.json").write_bytes(jwks(a=EC))
    startup = prepare(StartupOptions(config=path, data=str(tmp_path / "data")), ("native",))
    guard = startup.guard()
    assert not guard.open, "no users file is needed"
    assert guard.log_in(Hello("", token(), "", 0), "127.0.0.1", "").name == "ann"


# --- the guard --------------------------------------------------------------------------------------------------------


def guard_of(file: Path) -> UserGuard:
    rules = AccessRules(
        (
            Rule("", DestinationPattern.parse(">"), frozenset({"publish", "subscribe"}), group="traders"),
            Rule("bob", DestinationPattern.parse(">"), frozenset({"publish"})),
        )
    )
    users = add(Users({}), "bob", "bob's secret", frozenset(), CHEAP)
    return UserGuard(users, rules, BrokerLimits(), jwt=JwtVerifier(table(file, leeway_seconds=0.0)))


def test_rights_are_those_of_the_groups_and_end_with_the_rules(file: Path) -> None:
    guard = guard_of(file)
    ann = guard.log_in(Hello("ann", token(), "", 0), "10.0.0.1", "")
    assert (ann.may("publish", "t"), ann.may("manage", "t")) == (True, False)
    assert guard.token(ann) == "", "a token does not turn into one that lasts longer"
    assert guard.still(ann)
    guard.replace(guard.users, AccessRules(()))
    assert not guard.still(ann)


def test_a_name_beside_the_token_is_the_same_and_forgers_are_slowed_down(file: Path) -> None:
    guard = guard_of(file)
    with pytest.raises(SecurityError, match="different user"):
        guard.log_in(Hello("bob", token(), "", 0), "10.0.0.1", "")
    assert guard.log_in(Hello("bob", "bob's secret", "", 0), "10.0.0.2", "").name == "bob"
    forged = token(key=ec.generate_private_key(ec.SECP256R1()))
    for _ in range(BrokerLimits().login_failures_max):
        with pytest.raises(SecurityError, match="E_LOGIN_TOKEN"):
            guard.log_in(Hello("", forged, "", 0), "10.0.0.3", "")
    with pytest.raises(SecurityError, match="E_LOGIN_THROTTLED"):
        guard.log_in(Hello("", forged, "", 0), "10.0.0.3", "")


def test_expiry_ends_the_connection(file: Path) -> None:
    async def check() -> None:
        async with local_broker(guard=guard_of(file)) as here:
            short = token(exp=time.time() + 1.5)
            async with connect(here.url, password=short, reconnect=False) as client:
                await client.publish("t", wait=True)
                async for _ in await client.subscribe("t"):
                    pass

    with pytest.raises(ConnectionLostError, match="E_TOKEN_EXPIRED"):
        run(check())


# --- protocols --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    path.write_bytes(jwks(rsa=RSA, ec=EC, ed=EDWARDS))
    with BrokerThread(guard=guard_of(path)) as thread:
        yield thread


FORGED = token(key=ec.generate_private_key(ec.SECP256R1()))
LONG = token("RS256", groups=["traders", *[f"group-{number}" for number in range(150)]])


@pytest.mark.parametrize("given", [token(), LONG])
def test_native(broker: BrokerThread, given: str) -> None:
    with connect_blocking(broker.url, password=given) as client:
        client.publish("t", wait=True)
    with pytest.raises(SecurityError, match="E_LOGIN_TOKEN"), connect_blocking(broker.url, password=FORGED):
        pass


@pytest.mark.parametrize("given", [token(), LONG])
def test_stomp(broker: BrokerThread, given: str) -> None:
    def answer(passcode: str) -> bytes:
        with socket.create_connection(("127.0.0.1", broker.stomp_port), timeout=30) as stream:
            stream.sendall(f"CONNECT\naccept-version:1.2\nhost:x\npasscode:{passcode}\n\n\0".encode())
            return stream.recv(4096)

    assert answer(given).startswith(b"CONNECTED")
    assert b"E_LOGIN_TOKEN" in answer(FORGED)


@pytest.mark.parametrize("given", [token(), LONG])
def test_amqp(broker: BrokerThread, given: str) -> None:
    connection: Any = BlockingConnection(
        broker.amqp, timeout=30, user="ann", password=given, allowed_mechs="PLAIN", allow_insecure_mechs=True
    )
    connection.create_sender("topic://t").close()
    connection.close()
    with pytest.raises(ConnectionException):
        BlockingConnection(
            broker.amqp, timeout=30, user="ann", password=FORGED, allowed_mechs="PLAIN", allow_insecure_mechs=True
        )


def test_amqp_xoauth2() -> None:
    sasl = Sasl(("PLAIN", "XOAUTH2"))
    said = b"user=ann\x01auth=Bearer a.token\x01\x01"
    found = sasl.receive(SASL_HEADER + sasl_frame(INIT, [symbol("XOAUTH2"), said]))
    assert found is not None
    assert (found.user, found.password) == ("ann", "a.token")


@pytest.mark.parametrize("given", [token(), LONG])
def test_mqtt(broker: BrokerThread, given: str) -> None:
    def reason(password: str) -> str:
        answers: list[str] = []
        client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        client.username_pw_set("ann", password)
        client.on_connect = lambda *arguments: answers.append(str(arguments[3]))
        client.connect("127.0.0.1", broker.mqtt_port)
        while not answers:
            client.loop(0.1)
        client.disconnect()
        return answers[0]

    assert reason(given) == "Success"
    assert reason(FORGED) != "Success"


@pytest.mark.parametrize("given", [token(), LONG])
def test_http(broker: BrokerThread, given: str) -> None:
    def status(password: str) -> int:
        request = urllib.request.Request(
            f"http://127.0.0.1:{broker.http_port}/messages",
            json.dumps({"destination": "topic:t", "body": "x"}).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {password}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    assert status(given) < 300
    assert status(FORGED) == 401


def test_users_of_tokens_are_plain_records(file: Path) -> None:
    assert JwtVerifier(table(file)).verify(token(exp=2_000_000_000)) == TokenUser(
        "ann", frozenset({"traders"}), 2_000_000_030.0
    )
