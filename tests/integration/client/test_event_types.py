"""Event types at a broker that stands alone: the calls of the Hermes paper's Figure 3, with all that undoes them."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from tidings.broker.config.tables import AccessTable
from tidings.broker.security.access import AccessRules
from tidings.broker.security.guard import Anybody
from tidings.client import connect, sync
from tidings.errors import SecurityError, TidingsError, UsageError
from tidings.model.event_type import AttributeType, EventType, EventTypeError
from tidings.store.sqlite.store import SqliteStore
from tidings.testing.local_broker import BrokerThread, local_broker, run

TRADE = EventType("Trade", None, {"price": AttributeType.FLOAT})
SALE = EventType("Sale", "Trade", {"buyer": AttributeType.STRING})


async def _prices(subscription: object, count: int) -> list[object]:
    got = [await subscription.receive(30) for _ in range(count)]  # type: ignore[attr-defined]
    return [one.properties["price"] for one in got if one is not None]


def test_a_subscription_to_a_type_gets_its_subtypes_and_a_filter_what_it_lets_through() -> None:
    async def check() -> None:
        async with local_broker() as local, connect(local.url) as client, connect(local.url) as other:
            await client.add_type(TRADE)
            await client.add_type("Sale", {"buyer": "string"}, parent="Trade")
            await client.add_type(SALE)  # the same again
            assert await other.types() == [TRADE, SALE]
            assert await other.get_type("Sale") == [TRADE, SALE]
            trades = await other.subscribe(type="Trade")
            dear = await other.subscribe(type="Trade", selector="price > 10")
            sales = await other.subscribe(type="Sale", ack="client")
            await client.advertise_type("Trade")
            await client.advertise_type("Sale")
            await client.publish_event("Trade", {"price": 5})
            await client.publish_event("Sale", {"price": 20.0, "buyer": "me"}, b"sold", persistent=True)
            assert await _prices(trades, 2) == [5, 20.0]
            assert await _prices(dear, 1) == [20.0]
            sold = await sales.receive(30)
            assert sold is not None
            assert (sold.message.type, sold.body) == ("Sale", b"sold")
            await sold.ack()
            await trades.close()
            await client.publish_event("Trade", {"price": 30})
            assert await _prices(dear, 1) == [30]
            assert trades.receive_nowait() is None

    run(check())


def test_an_event_that_does_not_fit_its_type_is_refused_by_client_and_broker() -> None:
    async def check() -> None:
        async with local_broker() as local, connect(local.url) as client:
            await client.add_type(TRADE)
            await client.add_type(SALE)
            with pytest.raises(UsageError, match="E_TYPE_UNADVERTISED: advertise event type 'Sale'"):
                await client.publish_event("Sale", {"price": 1.0, "buyer": "me"})
            await client.advertise_type("Sale")
            sales = await client.subscribe(type="Sale")
            with pytest.raises(
                TidingsError, match="E_SELECTOR_KIND at 0: 'price' is a number and is compared with a str"
            ):
                await client.subscribe(type="Sale", selector="price = 'high'")
            wrong = {"price": "high", "seller": "me"}
            with pytest.raises(EventTypeError, match=r"'price' of event type 'Sale' is float, not string; .*'buyer'"):
                await client.publish_event("Sale", wrong)
            topic = "@type.Trade.Sale.event"
            with pytest.raises(TidingsError, match=r"E_EVENT_WRONG_TYPE: .*'price'.*; event type 'Sale' has no"):
                await client.publish(topic, wrong, wait=True)
            with pytest.raises(
                TidingsError, match="E_EVENT_TYPE: JMSType of an event of type 'Sale' must be the type's"
            ):
                await client.publish(topic, {"price": 1.0, "buyer": "me"}, wait=True, type="Trade")
            with pytest.raises(TidingsError, match="E_TYPE_UNKNOWN: there is no event type 'Other'"):
                await client.publish("@type.Other.event", {"price": 1.0}, wait=True, type="Other")
            with pytest.raises(TidingsError, match="E_TYPE_UNADVERTISED: event type 'Sale' is not advertised"):
                await client.publish("@type.Sale.event", {"price": 1.0}, wait=True, type="Sale")  # not its topic
            async with client.transaction() as transaction:
                await transaction.publish(topic, {"price": 1.0, "buyer": "me"}, type="Sale")
                for refused in (
                    transaction.publish(topic, {"price": 1.0}, wait=True, type="Sale"),
                    transaction.commit(),
                ):
                    with pytest.raises(TidingsError, match="E_EVENT_MISSING"):
                        await refused
                await transaction.begin()
                await transaction.publish(topic, {"price": 2.0, "buyer": "me"}, type="Sale")
                assert sales.receive_nowait() is None
            assert await _prices(sales, 1) == [2.0]
            await client.unadvertise_type("Sale")
            async with client.transaction() as transaction:
                with pytest.raises(TidingsError, match="E_TYPE_UNADVERTISED"):
                    await transaction.publish(topic, {"price": 1.0, "buyer": "me"}, type="Sale", wait=True)
                await transaction.rollback()
            await client.publish(topic, {"price": 3.0, "buyer": "me"}, type="Sale", wait=True)  # advertises it again
            assert await _prices(sales, 1) == [3.0]
            with pytest.raises(TidingsError, match="E_EVENT_UNKNOWN: event type 'Trade' has no attribute 'buyer'"):
                await client.subscribe(type="Trade", selector="buyer = 'me'")

    run(check())


def test_a_type_is_removed_only_when_nobody_needs_it() -> None:
    async def check() -> None:
        async with local_broker() as local, connect(local.url) as client, connect(local.url) as other:
            with pytest.raises(TidingsError, match="E_TYPE_UNKNOWN: there is no event type 'Trade'"):
                await client.add_type(SALE)
            await client.add_type(TRADE)
            await client.add_type(SALE)
            with pytest.raises(TidingsError, match="E_TYPE_REDEFINED"):
                await client.add_type("Sale", parent="Trade")
            with pytest.raises(TidingsError, match="E_TYPE_SUBTYPES"):
                await client.remove_type("Trade")
            durable = await other.subscribe(type="Sale", durable="audit")
            await client.advertise_type("Sale")
            with pytest.raises(TidingsError, match="E_TYPE_IN_USE"):
                await client.remove_type("Sale")
            await client.unadvertise_type("Sale")
            await durable.close()
            with pytest.raises(TidingsError, match="E_TYPE_IN_USE"):  # the broker still collects for it
                await client.remove_type("Sale")
            await other.forget("audit")
            await other.advertise_type("Sale")
            await other.close()  # its advertisement ends with it
            await client.remove_type("Sale")
            await client.remove_type("Trade")
            with pytest.raises(TidingsError, match="E_TYPE_UNKNOWN"):
                await client.advertise_type("Trade")

    run(check())


def test_a_type_whose_events_would_have_no_topic_is_refused() -> None:
    async def check() -> None:
        async with local_broker() as local, connect(local.url) as client:
            parent = None
            for letter in "ABCD":
                await client.add_type(letter * 250, parent=parent)
                parent = letter * 250
            with pytest.raises(TidingsError, match=r"E_TYPE_DEPTH: .* its 4 ancestors would have 1028 bytes"):
                await client.add_type("E" * 12, parent=parent)
            await client.add_type("E" * 8, parent=parent)
            await client.advertise_type("E" * 8)
            await client.publish_event("E" * 8, {}, wait=True)

    run(check())


def test_types_and_durable_subscriptions_to_them_survive_a_restart(tmp_path: Path) -> None:
    async def check() -> None:
        async with local_broker(SqliteStore(tmp_path / "store.db")) as local, connect(local.url) as client:
            await client.add_type(TRADE)
            await client.add_type(SALE)
            await client.add_type("Gone")
            await client.remove_type("Gone")
            await (await client.subscribe(type="Trade", durable="audit")).close()
        async with local_broker(SqliteStore(tmp_path / "store.db")) as local, connect(local.url) as client:
            assert await client.types() == [TRADE, SALE]
            await client.advertise_type("Sale")
            await client.publish_event("Sale", {"price": 1.0, "buyer": "me"}, persistent=True)
            audit = await client.subscribe(type="Trade", durable="audit")
            assert await _prices(audit, 1) == [1.0]

    run(check())


def test_advertisements_are_made_anew_on_a_new_connection(tmp_path: Path) -> None:
    async def check() -> None:
        async with local_broker(SqliteStore(tmp_path / "store.db")) as local:
            port = local.port
            client = await connect(local.url, reconnect=True)
            await client.add_type(TRADE)
            await client.advertise_type("Trade")
        async with local_broker(SqliteStore(tmp_path / "store.db"), port=port):
            trades = await client.subscribe(type="Trade")
            await client.publish_event("Trade", {"price": 1.0}, persistent=True)
            assert await _prices(trades, 1) == [1.0]
            await client.close()

    run(check())


class _Rights(Anybody):
    rules = AccessRules.of(
        [
            AccessTable("alice", "", ("define",), type="*"),
            AccessTable("alice", "", ("advertise", "publish"), type="Trade"),
            AccessTable("bob", "", ("subscribe",), type="Trade.Secret", allow=False),
            AccessTable("bob", "", ("subscribe",), type="Trade"),
        ]
    )

    def may(self, operation: str, destination: str) -> bool:
        return self.rules.concerning(self.name, ()).decide(operation, destination) is not None


class _Guard:
    open = False

    def log_in(self, hello: object, address: str, certificate: str) -> _Rights:
        return _Rights(hello.user)  # type: ignore[attr-defined]

    def log_in_at_once(self, hello: object, address: str, certificate: str) -> None:
        return None

    def proven(self, hello: object, address: str, certificate: str) -> bool:
        return False

    def token(self, principal: object) -> str:
        return ""

    def still(self, principal: object) -> bool:
        return True


def test_every_call_needs_the_right_for_its_type() -> None:
    async def check() -> None:
        async with (
            local_broker(guard=_Guard()) as local,
            connect(local.url, user="alice") as alice,
            connect(local.url, user="bob") as bob,
        ):
            for one in (TRADE, SALE, EventType("Secret", "Trade"), EventType("Other")):
                await alice.add_type(one)
            with pytest.raises(SecurityError, match=r"bob may not define event type 'Trade.Gift'"):
                await bob.add_type("Gift", parent="Trade")
            with pytest.raises(SecurityError, match="bob may not define"):
                await bob.remove_type("Sale")
            with pytest.raises(SecurityError, match="alice may not advertise event type 'Other'"):
                await alice.advertise_type("Other")
            with pytest.raises(SecurityError, match="bob may not advertise"):
                await bob.advertise_type("Sale")
            with pytest.raises(SecurityError, match="alice may not subscribe"):
                await alice.subscribe(type="Sale")
            with pytest.raises(SecurityError, match="bob may not subscribe"):  # some of it is secret
                await bob.subscribe(type="Trade")
            assert [one.name for one in await bob.types()] == ["Trade", "Sale"]
            with pytest.raises(SecurityError, match="bob may do nothing with"):
                await bob.get_type("Other")
            sales = await bob.subscribe(type="Sale")
            await alice.advertise_type("Sale")
            await alice.publish_event("Sale", {"price": 1.0, "buyer": "me"}, wait=True)
            assert await _prices(sales, 1) == [1.0]

    run(check())


def test_the_same_calls_block() -> None:
    with BrokerThread() as broker, sync.connect(broker.url) as client:
        client.add_type("Trade", {"price": "float"})
        trades = client.subscribe(type="Trade", selector="price > 10")
        client.advertise_type("Trade")
        with pytest.raises(EventTypeError, match="E_EVENT_MISSING"):
            client.publish_event("Trade", {})
        client.publish_event("Trade", {"price": 11.5}, persistent=True)
        got = trades.receive(30)
        assert got is not None
        assert got.properties == {"price": 11.5}
        trades.close()
        client.unadvertise_type("Trade")
        assert [one.name for one in client.get_type("Trade")] == ["Trade"]
        client.remove_type("Trade")
        assert client.types() == []


def test_a_type_in_use_gets_optional_attributes_and_goes_on(tmp_path: Path) -> None:
    fee = EventType("Trade", None, {"price": AttributeType.FLOAT, "fee": AttributeType.FLOAT}, frozenset({"fee"}))

    async def check() -> None:
        store = SqliteStore(tmp_path / "store.db")
        async with local_broker(store) as local, connect(local.url) as old, connect(local.url) as new:
            await old.add_type(TRADE)
            await old.add_type(SALE)
            trades = await old.subscribe(type="Trade")
            await old.advertise_type("Trade")
            await old.publish_event("Trade", {"price": 1.0}, wait=True)
            await new.add_type("Trade", {"price": "float", "fee": "float?"})
            await old.add_type(TRADE)  # an application that does not know of it starts again
            (form,) = await new.get_type("Trade")
            assert (form, form.version) == (fee, 2)
            await old.publish_event("Trade", {"price": 2.0}, wait=True)
            with pytest.raises(UsageError, match="E_EVENT_UNKNOWN"):
                await old.publish_event("Trade", {"price": 2.0, "fee": 0.5})  # it has the form of its advertisement
            await old.advertise_type("Trade")
            await new.advertise_type("Sale")
            dear = await new.subscribe(type="Trade", selector="fee > 0.1")
            cheap = await new.subscribe(type="Trade", selector="fee IS NULL")
            await old.publish_event("Trade", {"price": 3.0, "fee": 0.5}, wait=True)
            await new.publish_event("Sale", {"price": 4.0, "buyer": "me", "fee": 0.2}, persistent=True)
            await old.publish_event("Trade", {"price": 5.0}, wait=True)
            assert await _prices(trades, 5) == [1.0, 2.0, 3.0, 4.0, 5.0]
            assert await _prices(dear, 2) == [3.0, 4.0]
            assert await _prices(cheap, 1) == [5.0]
            for wrong in ({"price": "float", "tax": "float?"}, {"price": "float", "fee": "float"}, {"price": "int"}):
                with pytest.raises(TidingsError, match="E_TYPE_REDEFINED"):
                    await new.add_type("Trade", wrong)
            with pytest.raises(EventTypeError, match="E_EVENT_WRONG_TYPE"):
                await old.publish_event("Trade", {"price": 5.0, "fee": "much"})
        async with local_broker(SqliteStore(tmp_path / "store.db")) as local, connect(local.url) as client:
            (trade, sale) = await client.get_type("Sale")
            assert (trade, trade.version, sale) == (fee, 2, SALE)

    run(check())


def test_an_attribute_is_written_with_a_question_mark_if_it_is_optional() -> None:
    async def check() -> None:
        async with local_broker() as local, connect(local.url) as client:
            for kind in ("decimal", "float??", "?"):
                with pytest.raises(EventTypeError, match=r"E_TYPE_ATTRIBUTE.*with \? after it if it is optional"):
                    await client.add_type("Trade", {"price": kind})
            with pytest.raises(EventTypeError, match="E_TYPE_ATTRIBUTE"):
                EventType("Trade", None, {}, frozenset({"fee"}))

    run(check())


def test_times_are_moments_in_programs_and_in_selectors() -> None:
    async def check() -> None:
        async with local_broker() as local, connect(local.url) as client:
            await client.add_type("Job", {"at": "time", "until": "time?"})
            november = await client.subscribe(type="Job", selector="at >= '2025-11-01' AND at < '2025-12-01T00:00:00Z'")
            late = await client.subscribe(type="Job", selector="at IN ('2025-11-02T00:00:00+01:00') OR until > 5")
            await client.advertise_type("Job")
            moments = [datetime(2025, month, 2, 0, 0, tzinfo=timezone(timedelta(hours=1))) for month in (10, 11, 12)]
            for moment in moments:
                await client.publish_event("Job", {"at": moment}, persistent=moment.month == 11)
            await client.publish_event("Job", {"at": 0, "until": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)})
            got = await november.receive(30)
            assert got is not None
            assert got.properties["at"] == moments[1].timestamp() * 1000
            assert [one and one.properties["at"] for one in (await late.receive(30), await late.receive(30))] == [
                moments[1].timestamp() * 1000,
                0,
            ]
            assert november.receive_nowait() is None
            for wrong in ("tomorrow", 1.5, True, b"now"):
                with pytest.raises(EventTypeError, match="E_EVENT_WRONG_TYPE"):
                    await client.publish_event("Job", {"at": wrong})
            with pytest.raises(UsageError, match="E_ARGUMENT: at must be a datetime with a time zone"):
                await client.publish_event("Job", {"at": datetime(2025, 1, 1)})  # noqa: DTZ001
            for selector, code in (("at > 'soon'", "E_SELECTOR_TIME"), ("at = TRUE", "E_SELECTOR_KIND")):
                with pytest.raises(TidingsError, match=code):
                    await client.subscribe(type="Job", selector=selector)

    run(check())
