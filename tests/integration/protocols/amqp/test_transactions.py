"""Transactions of AMQP frame by frame against a real broker."""

import pytest
from hardening.fuzz.amqp_streams import (
    ACCEPT,
    DECLARE,
    DISCHARGE,
    DISPOSITION,
    REJECTED,
    TARGET,
    settled,
    transfer,
)
from hardening.support.amqp_client import (
    MODIFY,
    REJECT,
    RELEASE,
    Client,
    Open,
    dead_letters_of,
    put,
    queue_with,
    refused_with,
    source,
    text,
    to,
    within,
)

from tidings.broker.security import users
from tidings.broker.security.access import AccessRules, Rule
from tidings.broker.security.passwords import Cost
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.security.users import Users
from tidings.model.destination import DestinationPattern
from tidings.node.limits import BrokerLimits
from tidings.protocols.amqp.sections import MessageSection, encode
from tidings.protocols.amqp.wire.types import Described, uint
from tidings.testing.local_broker import BrokerThread


def test_a_commit_that_fails_undoes_every_outcome(client: Open) -> None:
    queue = queue_with(client, "accepted", "rejected", "released")
    worker = client()
    transaction = worker.declare()
    worker.publish(1, Described(TARGET, []))
    worker.receive(2, source(queue), credit=3)
    for outcome in (ACCEPT, REJECT, RELEASE):
        worker.say(settled(worker.take()[0], None, within(transaction, outcome)))
    worker.send(1, to("queue://tmp.9.9.9", "nobody's"), within(transaction))
    assert refused_with(worker.discharge(transaction)) == "amqp:transaction:rollback"
    other, graveyard = client(), client()
    other.receive(0, source(queue), credit=3)
    assert [other.take()[1] for _ in range(3)] == ["accepted", "rejected", "released"]
    graveyard.receive(0, dead_letters_of(queue), credit=10)
    for number in range(3):
        other.say(settled(number, None, ACCEPT if number else REJECT))
    assert graveyard.take()[1] == "accepted", "the only one that was rejected in earnest"


@pytest.mark.parametrize(("outcome", "found"), [(REJECT, "dead"), (MODIFY, "again"), (RELEASE, "again"), (ACCEPT, "")])
def test_an_outcome_of_a_transaction_outlives_its_link(client: Open, outcome: Described, found: str) -> None:
    queue = queue_with(client, "m")
    worker = client()
    transaction = worker.declare()
    worker.receive(1, source(queue), credit=1)
    worker.say(settled(worker.take()[0], None, within(transaction, outcome)))
    worker.detach(1)
    other = client()
    other.receive(0, source(queue), credit=10)
    put(client, queue, "behind it")
    assert other.take()[1] == "behind it", "it is not others' before the commit"
    assert worker.discharge(transaction).descriptor == ACCEPT.descriptor
    if found == "again":
        assert other.take()[1] == "m"
    elif found == "dead":
        other.receive(1, dead_letters_of(queue), credit=1)
        assert other.take()[1] == "m"
    else:
        put(client, queue, "last")
        assert other.take()[1] == "last"


@pytest.mark.parametrize("ends", [False, True])
def test_a_delivery_that_its_receiver_keeps_is_settled_with_the_commit(client: Open, *, ends: bool) -> None:
    queue = queue_with(client, "m")
    worker = client()
    transaction = worker.declare()
    worker.receive(1, source(queue), credit=9)
    number = worker.take()[0]
    worker.say(settled(number, None, within(transaction, REJECT), done=False))
    if ends:
        worker.detach(1)
    worker.send(9, encode(MessageSection.VALUE, Described(DISCHARGE, [transaction, False])))
    heard = [worker.hear(DISPOSITION)[0] for _ in range(2)]
    assert heard[-1][4].descriptor == ACCEPT.descriptor, "the discharge"
    assert heard[0][:4] == [False, uint(number), None, True]
    assert ends or heard[0][4].descriptor == REJECTED
    worker.receive(2, dead_letters_of(queue), credit=1)
    assert worker.take()[1] == "m"


def test_after_a_rollback_the_receiver_still_has_the_deliveries_that_it_keeps(client: Open) -> None:
    queue = queue_with(client, "m", "n")
    worker = client()
    transaction = worker.declare()
    worker.receive(1, source(queue), credit=9)
    first, second = worker.take()[0], worker.take()[0]
    worker.say(settled(first, second, within(transaction, ACCEPT), done=False))
    assert worker.discharge(transaction, fails=True).descriptor == ACCEPT.descriptor
    worker.say(settled(first, None, ACCEPT, done=False))
    assert worker.hear(DISPOSITION)[0][:4] == [False, uint(first), None, True]
    put(client, queue, "behind them")
    assert worker.take()[1] == "behind them", "nothing was sent again"
    worker.say(settled(second, None, RELEASE))
    assert worker.take()[1] == "n"


def test_a_commit_that_fails_takes_back_deliveries_that_the_receiver_keeps(client: Open) -> None:
    queue = queue_with(client, "m")
    worker = client()
    transaction = worker.declare()
    worker.publish(1, Described(TARGET, []))
    worker.receive(2, source(queue), credit=9)
    number = worker.take()[0]
    worker.say(settled(number, None, within(transaction, ACCEPT), done=False))
    worker.send(1, to("queue://tmp.9.9.9", "nobody's"), within(transaction))
    worker.send(9, encode(MessageSection.VALUE, Described(DISCHARGE, [transaction, False])))
    own = next(fields for fields in iter(lambda: worker.hear(DISPOSITION)[0], None) if not fields[0])
    assert own[:5] == [False, uint(number), None, True, None], "settled, without an outcome"
    assert worker.take()[1] == "m"


def test_what_is_said_last_of_a_delivery_counts(client: Open) -> None:
    queue = queue_with(client, "m")
    worker = client()
    transaction = worker.declare()
    worker.receive(1, source(queue), credit=9)
    number = worker.take()[0]
    worker.say(settled(number, None, within(transaction, ACCEPT), done=False))
    worker.say(settled(number, None, REJECT))
    worker.receive(2, dead_letters_of(queue), credit=1)
    assert worker.take()[1] == "m"
    assert worker.discharge(transaction).descriptor == ACCEPT.descriptor


def test_a_message_refused_here_spoils_its_transaction(client: Open) -> None:
    queue = queue_with(client)
    worker = client()
    transaction = worker.declare()
    worker.publish(1, Described(TARGET, [queue]))
    worker.send(1, text("first"), within(transaction), presettled=True)
    worker.send(1, b"\x00Sw\xff\xff", within(transaction), presettled=True)
    assert refused_with(worker.discharge(transaction)) == "amqp:transaction:rollback"
    put(client, queue, "only")
    worker.receive(2, source(queue), credit=2)
    assert worker.take()[1] == "only"


def test_a_message_refused_by_the_broker_spoils_its_transaction() -> None:
    alice = users.add(Users({}), "alice", "secret", frozenset(), Cost(n=2, r=1, p=1))
    rules = AccessRules((Rule("alice", DestinationPattern.parse("queue:hers"), frozenset({"publish"})),))
    with BrokerThread(guard=UserGuard(alice, rules, BrokerLimits())) as broker:
        worker = Client(broker.amqp_port, plain=b"\0alice\0secret")
        transaction = worker.declare()
        worker.publish(1, Described(TARGET, []))
        worker.send(1, to("queue://hers", "first"), within(transaction), presettled=True)
        worker.send(1, to("queue://theirs", "second"), within(transaction), presettled=True)
        assert refused_with(worker.discharge(transaction)) == "amqp:transaction:rollback"
        worker.close()


def test_a_discharge_amid_a_message_rolls_back(client: Open) -> None:
    queue = queue_with(client)
    worker = client()
    transaction = worker.declare()
    worker.publish(1, Described(TARGET, [queue]))
    content = text("whole")
    number = worker.send(1, content[:3], within(transaction), more=True)
    assert refused_with(worker.discharge(transaction)) == "amqp:transaction:rollback"
    worker.say(transfer([uint(1), uint(number), None, None, None, False], content[3:]))
    assert refused_with(worker.outcome()) == "amqp:transaction:unknown-id"


def test_a_transaction_of_more_than_this_broker_is_refused(client: Open) -> None:
    worker = client()
    worker.declare()
    worker.send(9, encode(MessageSection.VALUE, Described(DECLARE, [b"of all"])))
    assert refused_with(worker.outcome()) == "amqp:not-implemented"
