"""Log-in, access and limits over real sockets."""

import asyncio
import threading
import time
from typing import Any

import pytest
from hardening.support.links import eventually

from tidings.broker.security import users
from tidings.broker.security.access import AccessRules, Rule
from tidings.broker.security.login_tokens import LoginTokens
from tidings.broker.security.passwords import Cost, PasswordHash
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.security.users import Users
from tidings.client import Client, connect
from tidings.errors import RemoteError, SecurityError, TidingsError
from tidings.model.destination import DestinationPattern
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings
from tidings.protocols.native.frames import FrameSplitter, FrameType, RawFrame, control, decode_fields
from tidings.testing.local_broker import Local, local_broker, run

CHEAP = Cost(n=2, r=1, p=1)


def rule(user: str, operations: str, pattern: str, *, allow: bool = True, selector: str = "") -> Rule:
    return Rule(user, DestinationPattern.parse(pattern), frozenset(operations.split()), allow, selector)


RULES = AccessRules(
    (
        rule("*", "publish subscribe", "secret.>", allow=False),
        rule("reader", "subscribe", "news.>", selector="region = 'EU'"),
        rule("reader", "subscribe", "queue:work", selector="region = 'EU'"),
        rule("writer", "publish", ">"),
        rule("writer", "publish", "queue:>"),
        rule("other", "subscribe", ">"),
    )
)


def guard(
    limits: BrokerLimits | None = None, rules: AccessRules = RULES, tokens: LoginTokens | None = None
) -> UserGuard:
    known = Users({})
    for name in ("reader", "writer", "other"):
        known = users.add(known, name, f"{name}'s password", frozenset(), CHEAP)
    return UserGuard(known, rules, limits or BrokerLimits(), tokens=tokens)


def client(here: Local, user: str, **options: Any) -> Client:
    return connect(here.url, user=user, password=f"{user}'s password", reconnect=False, **options)


def test_nobody_comes_in_without_the_password() -> None:
    async def check() -> None:
        async with local_broker(guard=guard()) as here:
            for user, password in (("", ""), ("reader", ""), ("reader", "x"), ("nobody", "x")):
                with pytest.raises(SecurityError, match="E_LOGIN:"):
                    await connect(here.url, user=user, password=password, reconnect=False)
            async with client(here, "reader") as reader:
                assert reader.connected
            assert here.broker.login.refused == {"E_LOGIN": 4}

    run(check())


def test_who_was_in_comes_back_after_a_restart_without_a_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        before = guard(tokens=LoginTokens(bytes(32)))
        async with (
            local_broker(guard=before) as here,
            connect(here.url, user="reader", password="reader's password") as reader,
        ):

            def hashed(*_: object) -> bool:
                raise AssertionError("a password was hashed")

            after = UserGuard(before.users, RULES, BrokerLimits(), tokens=LoginTokens(bytes(32)))
            here.broker.login.guard = after  # as after a restart: it knows no password
            monkeypatch.setattr(PasswordHash, "fits", hashed)
            for connection in list(here.broker.clients.connections.values()):
                connection.abort()

            async def back() -> bool:
                return reader.generation == 2 and reader.connected

            await eventually(back, 30)
            assert here.broker.login.refused == {}

    run(check())


def test_a_user_removed_while_the_password_is_checked_stays_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        ours, checking, removed = guard(), threading.Event(), threading.Event()
        prove = UserGuard.log_in

        def slowly(self: UserGuard, *arguments: Any) -> Any:
            principal = prove(self, *arguments)
            checking.set()
            assert removed.wait(30)
            return principal

        monkeypatch.setattr(UserGuard, "log_in", slowly)
        async with local_broker(guard=ours) as here:
            trying = asyncio.ensure_future(_entered(here, "reader"))
            assert await asyncio.to_thread(checking.wait, 30)
            ours.replace(ours.users.without("reader"), ours.rules)
            removed.set()
            with pytest.raises(TidingsError, match="E_ACCESS_CHANGED"):
                await trying
            assert here.broker.login.refused == {"E_ACCESS_CHANGED": 1}
            await _entered(here, "writer")

    run(check())


async def _entered(here: Local, user: str) -> None:
    async with client(here, user):
        pass


def test_a_rules_browse_selector_holds_for_retained_messages() -> None:
    rules = AccessRules(
        (rule("writer", "publish subscribe browse", "news.>"), rule("reader", "browse", "news.>", selector="r = 'EU'"))
    )

    async def check() -> None:
        async with (
            local_broker(guard=guard(rules=rules)) as here,
            client(here, "writer") as writer,
            client(here, "reader") as reader,
        ):
            await writer.retain("log", "news.>")
            for region in ("EU", "US", "EU"):
                await writer.publish("news.a", {"r": region}, persistent=True)
            got = [one.properties["r"] async for _, one in reader.retained("log").read_all()]
            assert got == ["EU", "EU"]
            assert len([one async for one in writer.retained("log").read_all()]) == 3

    run(check())


def test_a_transaction_with_a_forbidden_message_does_not_happen() -> None:
    async def check() -> None:
        async with (
            local_broker(guard=guard()) as here,
            client(here, "writer") as writer,
            client(here, "other") as other,
        ):
            news = await other.subscribe("news.>")
            work = writer.transaction()
            await work.begin()
            await work.publish("news.a", {"n": 1})
            await work.publish("secret.a")
            with pytest.raises(SecurityError, match="E_FORBIDDEN: writer may not publish to topic:secret"):
                await work.commit()
            await writer.publish("news.a", {"n": 2})
            got = await news.receive(30)
            assert got is not None
            assert got.properties == {"n": 2}

    run(check())


def test_too_many_failures_are_throttled() -> None:
    async def check() -> None:
        async with local_broker(guard=guard(BrokerLimits(login_failures_max=2, login_lock_seconds=60))) as here:
            for _ in range(2):
                with pytest.raises(SecurityError, match="E_LOGIN:"):
                    await connect(here.url, user="reader", password="x", reconnect=False)
            with pytest.raises(SecurityError, match="E_LOGIN_THROTTLED"):
                await client(here, "reader")
            assert here.broker.login.refused["E_LOGIN_THROTTLED"] == 1

    run(check())


def test_who_must_wait_before_logging_in_again_waits_and_comes_back() -> None:
    async def check() -> None:
        locking = guard(BrokerLimits(login_failures_max=1, login_lock_seconds=60))
        async with (
            local_broker(guard=locking) as here,
            connect(here.url, user="reader", password="reader's password") as reader,
        ):
            with pytest.raises(SecurityError, match="E_LOGIN:"):
                await connect(here.url, user="reader", password="x", reconnect=False)
            for connection in list(here.broker.clients.connections.values()):
                connection.abort()
            while not here.broker.login.refused.get("E_LOGIN_THROTTLED"):
                await asyncio.sleep(0.01)
            here.broker.login.guard = guard()  # the time is over
            await reader.types()
            assert reader.generation == 2

    run(check())


def test_what_no_rule_allows_is_refused() -> None:
    async def check() -> None:
        async with (
            local_broker(guard=guard()) as here,
            client(here, "reader") as reader,
            client(here, "writer") as writer,
        ):
            for destination in ("secret.plans", "weather", ">", "*.plans", "queue:other"):
                with pytest.raises(SecurityError, match="E_FORBIDDEN: reader may not subscribe"):
                    await reader.subscribe(destination)
            for destination in ("news.sport", "queue:work"):
                with pytest.raises(SecurityError, match="E_FORBIDDEN: reader may not publish"):
                    await reader.publish(destination, wait=True)
            with pytest.raises(SecurityError, match="E_FORBIDDEN"):
                await writer.publish("secret.plans", wait=True)
            with pytest.raises(SecurityError, match="E_FORBIDDEN"):
                await writer.publish("secret.plans", persistent=True)
            await writer.publish("news.sport", wait=True)  # the connection goes on

    run(check())


def test_a_refused_message_reaches_nobody_by_any_way() -> None:
    async def check() -> None:
        async with (
            local_broker(guard=guard()) as here,
            client(here, "reader") as reader,
            client(here, "writer") as writer,
            client(here, "other") as other,
        ):
            seen = await other.subscribe("news.>")
            await reader.publish("news.a", {"n": 1})  # no receipt: silently refused
            work = reader.transaction()
            await work.begin()
            for refused in (work.publish("news.a", {"n": 2}, wait=True), work.commit()):
                with pytest.raises(SecurityError):
                    await refused
            await writer.publish("news.a", {"n": 3}, wait=True)
            got = await seen.receive(30)
            assert got is not None
            assert got.properties == {"n": 3}

    run(check())


@pytest.mark.parametrize(
    "options",
    [
        {"destination": "news.>"},
        {"destination": "news.>", "selector": "n > 0 OR n < 0"},
        {"destination": "news.*", "durable": "d"},
        {"destination": "news.>", "shared": "s", "selector": "n IS NOT NULL"},
        {"destination": "news.a", "ack": "client"},
        {"destination": "queue:work"},
        {"destination": "queue:work", "selector": "n < 100 OR region = 'US'"},
    ],
)
def test_a_rules_selector_is_added_to_every_subscription(options: dict[str, str]) -> None:
    async def check() -> list[object]:
        async with (
            local_broker(guard=guard()) as here,
            client(here, "reader") as reader,
            client(here, "writer") as writer,
        ):
            seen = await reader.subscribe(**options)  # type: ignore[arg-type]
            to = "queue:work" if options["destination"].startswith("queue") else "news.a"
            for number, region in enumerate(("US", "EU", "", "EU"), 1):
                properties: dict[str, object] = {"n": number, "region": region} if region else {"n": number}
                await writer.publish(to, properties, wait=True)  # type: ignore[arg-type]
            got: list[object] = []
            while len(got) < 2 and (delivery := await seen.receive(30)) is not None:
                got.append(delivery.properties["n"])
            assert seen.receive_nowait() is None
            return got

    assert run(check()) == [2, 4]


def test_durable_subscriptions_belong_to_their_user() -> None:
    async def check() -> None:
        async with local_broker(guard=guard()) as here:
            async with client(here, "other", client_id="desk") as other:
                await other.subscribe("news.>", durable="mine")
            async with client(here, "reader", client_id="desk") as reader:
                with pytest.raises(RemoteError, match="E_DURABLE_UNKNOWN"):
                    await reader.forget("mine")
            async with client(here, "other", client_id="desk") as other:
                await other.forget("mine")

    run(check())


def test_durable_subscriptions_of_others_are_ended_by_who_may_manage_everything() -> None:
    async def check() -> None:
        rules = AccessRules((rule("other", "subscribe manage", "news.>"), rule("writer", "manage", ">")))
        async with local_broker(guard=guard(rules=rules)) as here:
            async with client(here, "other", client_id="desk") as other:
                await other.subscribe("news.>", durable="mine")
                async with client(here, "writer") as boss:
                    with pytest.raises(RemoteError, match="E_DURABLE_BUSY"):
                        await boss.forget("mine", owner="other/desk")
            async with client(here, "reader") as reader:
                with pytest.raises(SecurityError, match="E_FORBIDDEN"):
                    await reader.forget("mine", owner="other/desk")
            async with client(here, "writer") as boss:
                with pytest.raises(RemoteError, match="E_DURABLE_UNKNOWN"):
                    await boss.forget("mine", owner="reader/desk")
                await boss.forget("mine", owner="other/desk")
                assert (await boss.inspect("mailboxes"))["total"] == 0

    run(check())


def test_a_shared_subscription_is_replaced_only_by_who_may_manage_it() -> None:
    async def check() -> None:
        async with local_broker(guard=guard()) as here:
            async with client(here, "other") as other:
                await other.subscribe("news.>", shared="team", durable=True)
            async with client(here, "reader") as reader:
                with pytest.raises(SecurityError, match="E_FORBIDDEN"):
                    await reader.subscribe("news.>", shared="team", durable=True, selector="n > 0")
                await reader.subscribe(
                    "news.>", shared="team", durable=True
                )  # with a rule's selector: for the reader only
            async with client(here, "writer") as writer:
                await writer.publish("news.a", {"n": 1, "region": "US"}, persistent=True, wait=True)
            async with client(here, "other") as other:
                team = await other.subscribe("news.>", shared="team", durable=True)
                assert await team.receive(30) is not None

    run(check())


@pytest.mark.parametrize("selector", ["", "n > 1 OR region = 'EU'", "FALSE"])
@pytest.mark.parametrize("topic", ["a", "a.b", "a.>", "a.*", ">"])
def test_a_shared_subscription_is_ended_only_by_who_may_manage_its_topic(topic: str, selector: str) -> None:
    """To manage another topic, which one could ask for in its stead, is not enough."""
    rules = AccessRules(
        (
            rule("writer", "subscribe manage", "b.>"),
            rule("reader", "subscribe", ">"),
            rule("other", "subscribe manage", ">"),
        )
    )

    async def check() -> None:
        async with local_broker(guard=guard(rules=rules)) as here:
            async with client(here, "other") as other:
                await other.subscribe(topic, shared="team", durable=True, selector=selector)
            async with client(here, "writer") as writer, client(here, "reader") as reader:
                for refused in (
                    writer.subscribe("b.c", shared="team", durable=True),
                    writer.forget("team", shared=True),
                    reader.forget("team", shared=True),
                ):
                    with pytest.raises(SecurityError, match="E_FORBIDDEN"):
                        await refused
            async with client(here, "other") as other:
                await other.forget("team", shared=True)
                with pytest.raises(RemoteError, match="E_DURABLE_UNKNOWN"):
                    await other.forget("team", shared=True)

    run(check())


def test_policies_that_are_not_offered_are_refused() -> None:
    async def check() -> None:
        settings = NodeSettings(slow_policies=frozenset({"drop-newest"}))
        async with local_broker(settings=settings) as here, connect(here.url) as someone:
            with pytest.raises(RemoteError, match="E_POLICY"):
                await someone.subscribe("a")
            await someone.subscribe("a", policy="drop-newest")

    run(check())


def test_when_rights_change_only_those_concerned_must_connect_again() -> None:
    async def check() -> None:
        async with (
            local_broker(guard=guard()) as here,
            client(here, "reader") as reader,
            client(here, "writer") as writer,
        ):
            assert here.broker.clients.end_all("E_ACCESS_CHANGED", "changed", users=frozenset({"reader"})) == 1
            for _ in range(500):
                if not reader.connected:
                    break
                await asyncio.sleep(0.01)
            assert (reader.connected, writer.connected) == (False, True)
            await writer.publish("news.a", wait=True)

    run(check())


# --- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "guarded"),
    [
        (BrokerLimits(connections_max=2), False),
        (BrokerLimits(connections_per_address_max=2), False),
        (BrokerLimits(connections_per_user_max=2), True),
    ],
)
def test_too_many_connections_are_turned_away_until_one_leaves(limits: BrokerLimits, guarded: bool) -> None:
    async def check() -> None:
        async with local_broker(guard=guard() if guarded else None, limits=limits) as here:
            first, second = await client(here, "writer"), await client(here, "writer")
            with pytest.raises(RemoteError, match="E_CONNECTIONS"):
                await client(here, "writer")
            assert here.broker.view().connections_refused == 1
            await second.publish("news.a", wait=True)
            await first.close()
            await gone(here, 1)
            third = await client(here, "writer")
            await third.close()
            await second.close()

    run(check())


async def gone(here: Local, left: int) -> None:
    """Wait until so few connections are left."""
    deadline = time.monotonic() + 3  # less than the silence after which a closing connection is cut off
    while len(here.broker.clients.connections) > left:
        assert time.monotonic() < deadline, "the broker keeps a connection that said good-bye"
        await asyncio.sleep(0.005)


async def frames_until_end(reader: asyncio.StreamReader) -> list[RawFrame]:
    splitter, frames = FrameSplitter(1 << 20), list[RawFrame]()
    while data := await asyncio.wait_for(reader.read(65536), 30):
        frames += splitter.feed(data)
    return frames


@pytest.mark.parametrize("sent", [b"", control(FrameType.HELLO, {"version": 1})[:-3]])
def test_who_does_not_log_in_is_cut_off(sent: bytes) -> None:
    async def check() -> None:
        async with local_broker(limits=BrokerLimits(login_seconds=0.1)) as here:
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(sent)
            (frame,) = await frames_until_end(reader)
            fields = decode_fields(frame.payload)
            assert (frame.type, fields["code"], fields["fatal"]) == (FrameType.ERROR, "E_LOGIN_TIMEOUT", True)
            writer.close()
            await gone(here, 0)

    run(check())


def test_a_password_never_reaches_a_log(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        async with local_broker(guard=guard()) as here:
            async with client(here, "writer") as writer:
                await writer.publish("news.a", wait=True)
            with pytest.raises(TidingsError):
                await connect(here.url, user="writer", password="hunter2", reconnect=False)

    caplog.set_level("DEBUG")
    run(check())
    logged = " ".join(str(record.__dict__) for record in caplog.records)
    assert "login refused" in logged
    assert "hunter2" not in logged
    assert "password" not in logged


def test_a_refused_publication_that_nobody_waits_for_is_not_forgotten() -> None:
    async def check() -> None:
        async with local_broker(guard=guard()) as here, client(here, "reader") as reader:
            await reader.publish("news.eu")
            await reader.subscribe("news.>")  # answered after the publication
            assert [error.code for error in reader.errors] == ["E_FORBIDDEN"]
            assert reader.connected

    run(check())
