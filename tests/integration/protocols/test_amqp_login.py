"""Logging in by AMQP: PLAIN, EXTERNAL, ANONYMOUS, none at all; and what those may do who are in."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hardening.support.certificates import Authority
from proton import ConnectionException, Delivery, Message
from proton.utils import BlockingConnection, LinkDetached, SendException

from tidings.broker.config.tls import TlsTable
from tidings.broker.security import users
from tidings.broker.security.access import AccessRules, Rule
from tidings.broker.security.passwords import Cost
from tidings.broker.security.tls import server_context
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.security.users import Users
from tidings.errors import RemoteProtocolError
from tidings.model.destination import DestinationPattern
from tidings.node.limits import BrokerLimits
from tidings.protocols.amqp.sasl import (
    AMQP_HEADER,
    INIT,
    OUTCOME,
    RESPONSE,
    SASL_HEADER,
    WAITING_BYTES_MAX,
    Credentials,
    Sasl,
    SaslOutcome,
    SaslState,
    sasl_frame,
)
from tidings.protocols.amqp.wire.decode import decode_first
from tidings.protocols.amqp.wire.types import Described, symbol, ulong
from tidings.testing.local_broker import BrokerThread

SECONDS = 30
CHEAP = Cost(n=2, r=1, p=1)


def rule(operations: str, pattern: str) -> Rule:
    return Rule("alice", DestinationPattern.parse(pattern), frozenset(operations.split()))


RULES = AccessRules((rule("publish subscribe", "news.>"), rule("subscribe", "queue:work")))


def guard(password: str | None = "secret") -> UserGuard:
    return UserGuard(users.add(Users({}), "alice", password, frozenset(), CHEAP), RULES, BrokerLimits())


@pytest.fixture(scope="module")
def guarded() -> Iterator[BrokerThread]:
    with BrokerThread(guard=guard()) as running:
        yield running


def log_in(broker: BrokerThread, **options: Any) -> Any:
    return BlockingConnection(broker.amqp, timeout=SECONDS, allow_insecure_mechs=True, **options)


def test_a_user_with_the_right_password_may_do_what_the_rules_say(guarded: BrokerThread) -> None:
    connection = log_in(guarded, user="alice", password="secret")
    receiver = connection.create_receiver("topic://news.eu", credit=1)
    connection.create_sender("topic://news.eu").send(Message(body="m"))
    assert receiver.receive(timeout=SECONDS).body == "m"
    for create, address in ((connection.create_sender, "queue://work"), (connection.create_receiver, "topic://secret")):
        with pytest.raises(LinkDetached, match="unauthorized-access"):
            create(address)
    anonymous = connection.create_sender(None)
    with pytest.raises(SendException):
        anonymous.send(Message(address="queue://work"))
    connection.close()


@pytest.mark.parametrize("credentials", [{"user": "alice", "password": "wrong"}, {"user": "bob", "password": "x"}, {}])
def test_others_stay_outside(guarded: BrokerThread, credentials: dict[str, str]) -> None:
    with pytest.raises(ConnectionException, match=r"(?i)authentication|unauthorized|mech"):
        log_in(guarded, **credentials)


def test_without_users_any_name_and_none_will_do(broker: BrokerThread) -> None:
    for credentials in ({}, {"user": "anybody", "password": "x"}):
        connection = log_in(broker, **credentials)
        sent = connection.create_sender("topic://t").send(Message())
        assert sent.remote_state == Delivery.ACCEPTED
        connection.close()


def receive(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = stream.recv(size - len(data))
        assert part, data
        data += part
    return data


def next_frame(stream: socket.socket) -> tuple[int, Any]:
    size = int.from_bytes(head := receive(stream, 4), "big")
    value, _ = decode_first((head + receive(stream, size - 4))[8:])
    return int(value.descriptor), value.value


def test_without_a_sasl_layer_one_is_nobody(guarded: BrokerThread, broker: BrokerThread) -> None:
    for place, ending in ((broker, b""), (guarded, b"amqp:unauthorized-access")):
        with socket.create_connection(("127.0.0.1", place.amqp_port), SECONDS) as stream:
            stream.sendall(AMQP_HEADER)
            assert receive(stream, len(AMQP_HEADER)) == AMQP_HEADER
            answer = b""
            while ending and (part := stream.recv(4096)):
                answer += part
            assert ending in answer


def test_a_certificates_common_name_is_a_user(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = str(authority.sign("broker", "server.pem"))
    tls = server_context(TlsTable(certificate=server, client_ca=str(authority.path)))
    context = authority.client_context(authority.sign("alice", "alice.pem"))
    with (
        BrokerThread(guard=guard(None), amqp_tls=tls) as place,
        socket.create_connection(("127.0.0.1", place.amqp_port), SECONDS) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as stream,
    ):
        stream.sendall(SASL_HEADER)
        assert receive(stream, 8) == SASL_HEADER
        _, (mechanisms,) = next_frame(stream)
        assert "EXTERNAL" in mechanisms.elements
        stream.sendall(sasl_frame(INIT, [symbol("EXTERNAL"), b""]))
        assert next_frame(stream) == (OUTCOME, [SaslOutcome.OK])


def test_plain_in_two_steps_and_byte_by_byte() -> None:
    sasl = Sasl(("PLAIN",))
    said = SASL_HEADER + sasl_frame(INIT, [symbol("PLAIN")]) + sasl_frame(RESPONSE, [b"\0alice\0secret"])
    found = [one for i in range(len(said)) if (one := sasl.receive(said[i : i + 1])) is not None]
    assert found == [Credentials("alice", "secret")]
    assert sasl.state is SaslState.CHECKING
    sasl.decide(SaslOutcome.OK)
    sasl.receive(AMQP_HEADER)
    assert sasl.take_input() == AMQP_HEADER


def test_what_is_said_before_the_outcome_waits_up_to_a_limit() -> None:
    sasl = Sasl(("PLAIN",))
    sasl.receive(SASL_HEADER + sasl_frame(INIT, [symbol("PLAIN"), b"\0alice\0secret"]))
    early = AMQP_HEADER + bytes(WAITING_BYTES_MAX - len(AMQP_HEADER))
    for start in range(0, len(early), 4096):
        assert sasl.receive(early[start : start + 4096]) is None
    with pytest.raises(RemoteProtocolError, match="E_AMQP_SASL"):
        sasl.receive(b"!")
    sasl.decide(SaslOutcome.OK)
    assert sasl.take_input() == early + b"!"


def test_what_comes_without_a_log_in_waits_up_to_a_limit() -> None:
    sasl = Sasl(("ANONYMOUS",))
    assert sasl.receive(AMQP_HEADER) == Credentials()
    sasl.receive(bytes(WAITING_BYTES_MAX - len(AMQP_HEADER)))
    with pytest.raises(RemoteProtocolError, match="E_AMQP_SASL"):
        sasl.receive(b"!")


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"GET / HTTP/1.1\r\n", "E_AMQP_HEADER"),
        (b"AMQP\x02\x01\x00\x00", "E_AMQP_HEADER"),
        (SASL_HEADER + bytes(8), "E_AMQP_SASL"),
        (SASL_HEADER + b"\x00\x01\x00\x00\x02\x01\x00\x00", "E_AMQP_SASL"),
        (SASL_HEADER + sasl_frame(RESPONSE, [b""]), "E_AMQP_SASL"),
        (SASL_HEADER + sasl_frame(INIT, []), "E_AMQP_MECHANISM"),
        (SASL_HEADER + sasl_frame(INIT, [symbol("GSSAPI")]), "E_AMQP_MECHANISM"),
        (SASL_HEADER + sasl_frame(INIT, [symbol("PLAIN"), b"no separators"]), "E_AMQP_SASL"),
        (SASL_HEADER + sasl_frame(INIT, [symbol("PLAIN"), b"root\0alice\0x"]), "E_AMQP_SASL"),
        (SASL_HEADER + sasl_frame(INIT, [symbol("PLAIN"), b"\0\xff\0x"]), "E_AMQP_SASL"),
        (SASL_HEADER + sasl_frame(INIT, Described(ulong(1), 1)), "E_AMQP_SASL"),
    ],
)
def test_what_is_not_a_log_in_is_refused(said: bytes, code: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        Sasl(("PLAIN",)).receive(said)
    assert caught.value.code == code
