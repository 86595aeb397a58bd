"""Every limit that somebody outside can reach, as a table, and a probe for each: the limit itself works, one more is
refused with a code.

    python -m hardening.limits_table docs/limits.md        # rewrites the page

Limits that an administrator sets are probed at a small value; the same lines of the program hold the large one.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hardening.support.node_driver import NodeDriver
from tidings.broker.security import passwords
from tidings.client.connection import outbox
from tidings.client.connection import own_echoes as echo
from tidings.client.connection.transport import GATHER_BYTES
from tidings.errors import RemoteProtocolError, TidingsError
from tidings.kernel.events import FrameError
from tidings.kernel.forwarder import Forwarder
from tidings.kernel.matcher import FILTER_STEPS, MESSAGE_STEPS
from tidings.matching.encoding import MESSAGE_ELEMENTS_MAX
from tidings.model.constraint import NAME_BYTES_MAX as ATTRIBUTE_BYTES_MAX
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import NAME_BYTES_MAX, Destination
from tidings.model.message import PROPERTIES_MAX, Message
from tidings.model.selector import Selector, lexer, parser
from tidings.node.clients.idempotent_commit import KEY_MAX, IdempotentCommit
from tidings.node.clients.subscription_plan import CLIENT_ID_MAX, NAME_MAX
from tidings.node.limits import BrokerLimits
from tidings.node.requests import Begin, Failed, Identify, Refused, Retain
from tidings.node.settings import NodeSettings

FEW = 3
STOMP_HEADERS_MAX, STOMP_HEAD_BYTES_MAX = 1000, 64 << 10  # the kernel's
RETAINED = 1000
WAITS = "`publish` waits"
_OUTBOX_TEST = (
    "tests/integration/client/test_flow.py::"
    "test_however_many_publish_at_a_time_little_is_held_and_who_is_cancelled_has_sent_nothing"
)


@dataclass(frozen=True, slots=True)
class Limit:
    what: str
    value: int | float
    setting: str  # the name in the configuration; empty: it is fixed
    code: str
    probe: Callable[[int], None] | None = None  # raises at `value` + 1 (or FEW + 1) and not below; None: see `test`
    probed_at: int = 0
    test: str = ""


def refusal(answer: object) -> None:
    if isinstance(answer, Failed | Refused):
        raise answer.error


def _subscriptions(count: int) -> None:
    client = NodeDriver(settings=NodeSettings(subscriptions_max=FEW)).connect()
    for number in range(1, count + 1):
        refusal(client.answer(client.subscribe(number, f"t.{number}")))


def _mailboxes(count: int) -> None:
    client = NodeDriver(settings=NodeSettings(mailboxes_max=FEW)).connect("me")
    for number in range(1, count + 1):
        refusal(client.answer(client.subscribe(number, "t", durable=f"d{number}")))


def _transactions(count: int) -> None:
    client = NodeDriver(settings=NodeSettings(transactions_max=FEW)).connect()
    for number in range(1, count + 1):
        client.ask(Begin(number, number))
        refusal(client.answer(number))


def _transaction_bytes(size: int) -> None:
    driver = NodeDriver()
    empty = len(driver.message("t"))
    driver = NodeDriver(settings=NodeSettings(transaction_bytes_max=empty + FEW))
    client = driver.connect()
    client.begin(1)
    receipt = client.publish(driver.message("t", bytes(size)), session=1)
    refusal(client.answer(receipt))


def _transaction_messages(count: int) -> None:
    driver = NodeDriver(settings=NodeSettings(transaction_messages_max=FEW))
    client, message = driver.connect(), driver.message("t")
    client.begin(1)
    for receipt in [client.publish(message, session=1) for _ in range(count)]:
        refusal(client.answer(receipt))


def _retained(size: int) -> None:
    client = NodeDriver(settings=NodeSettings(retained_bytes_max=RETAINED)).connect()
    client.ask(Retain(1, "name", "t", bytes_max=size))
    refusal(client.answer(1))


def _durable_name(length: int) -> None:
    client = NodeDriver().connect("me")
    refusal(client.answer(client.subscribe(1, "t", durable="d" * length)))


def _client_id(length: int) -> None:
    client = NodeDriver().connect("me/")
    client.ask(Identify(1, "c" * (length - 4)))
    client.ask(Identify(2, "c"))
    refusal(client.answer(2))


def _commit_key(length: int) -> None:
    IdempotentCommit().done("k" * length, 1)


def _selector_text(length: int) -> None:
    Selector("x = 1".ljust(length))


def _selector_tokens(count: int) -> None:
    sign = "-" if count % 2 == 0 else ""
    Selector(f"x = {sign}" + "+".join(["1"] * ((count - 1) // 2)))


def _selector_depth(depth: int) -> None:
    Selector("(" * depth + "x = 1" + ")" * depth)


def _selector_choices(count: int) -> None:
    Selector(f"x IN ({', '.join(repr(str(number)) for number in range(count))})")


def _stomp(frame: bytes) -> None:
    plane = Forwarder()
    client = plane.open()
    plane.speak_stomp(client)
    plane.log_in(client, LIMITS.frame_bytes_max, False)
    plane.feed_bytes(client, frame, 0)
    for event in plane.events():
        if isinstance(event, FrameError):
            raise RemoteProtocolError(event.code, event.reason)


def _stomp_headers(count: int) -> None:
    _stomp(b"SEND\ndestination:/topic/t\n" + b"".join(b"h%d:\n" % number for number in range(1, count)) + b"\n\0")


def _stomp_bytes(size: int) -> None:
    _stomp(b"SEND\ndestination:/topic/t\nh:".ljust(size - 2, b"x") + b"\n\n\0")


def _password(length: int) -> None:
    passwords.hash_password("p" * length, passwords.Cost(n=2, r=1, p=1))


SETTINGS, LIMITS = NodeSettings(), BrokerLimits()
ALL = (
    Limit(
        "subscriptions of a connection",
        SETTINGS.subscriptions_max,
        "limits.subscriptions_max",
        "E_SUBSCRIPTIONS",
        _subscriptions,
        FEW,
    ),
    Limit(
        "queues and kept subscriptions of a broker",
        SETTINGS.mailboxes_max,
        "limits.mailboxes_max",
        "E_MAILBOXES",
        _mailboxes,
        FEW,
    ),
    Limit(
        "open transactions of a connection",
        SETTINGS.transactions_max,
        "limits.transactions_max",
        "E_TRANSACTIONS",
        _transactions,
        FEW,
    ),
    Limit(
        "bytes of a transaction",
        SETTINGS.transaction_bytes_max,
        "limits.transaction_bytes_max",
        "E_TRANSACTION_SIZE",
        _transaction_bytes,
        FEW,
    ),
    Limit(
        "messages of a transaction",
        SETTINGS.transaction_messages_max,
        "limits.transaction_messages_max",
        "E_TRANSACTION_SIZE",
        _transaction_messages,
        FEW,
    ),
    Limit(
        "bytes retained for one subscription",
        SETTINGS.retained_bytes_max,
        "limits.retained_bytes_max",
        "E_RETAIN_LIMIT",
        _retained,
        RETAINED,
    ),
    Limit("characters of a subscription's name", NAME_MAX, "", "E_SUBSCRIBE_NAME", _durable_name),
    Limit("characters of a client's id, its user's name included", CLIENT_ID_MAX, "", "E_CLIENT_ID", _client_id),
    Limit("characters of a commit's key", KEY_MAX, "", "E_COMMIT_KEY", _commit_key),
    Limit(
        "bytes of a destination's name",
        NAME_BYTES_MAX,
        "",
        "E_DESTINATION_LENGTH",
        lambda n: _used(Destination("d" * n)),
    ),
    Limit(
        "bytes of an attribute's name",
        ATTRIBUTE_BYTES_MAX,
        "",
        "E_NAME_LENGTH",
        lambda n: _used(Constraint("a" * n, Op.EQ, 1)),
    ),
    Limit(
        "properties of a message",
        PROPERTIES_MAX,
        "",
        "E_MESSAGE_PROPERTIES",
        lambda n: _used(Message(Destination("t"), {f"p{i}": 1 for i in range(n)})),
    ),
    Limit("characters of a selector", lexer.TEXT_MAX, "", "E_SELECTOR_LIMIT", _selector_text),
    Limit("words, signs and values of a selector", lexer.TOKENS_MAX, "", "E_SELECTOR_LIMIT", _selector_tokens),
    Limit("parentheses in each other in a selector", parser.DEPTH_MAX, "", "E_SELECTOR_LIMIT", _selector_depth),
    Limit("values after IN", parser.CHOICES_MAX, "", "E_SELECTOR_LIMIT", _selector_choices),
    Limit("headers of a STOMP frame", STOMP_HEADERS_MAX, "", "E_STOMP_LIMIT", _stomp_headers),
    Limit("bytes of a STOMP frame before its body", STOMP_HEAD_BYTES_MAX, "", "E_STOMP_LIMIT", _stomp_bytes),
    Limit("bytes of a password", passwords.PASSWORD_BYTES_MAX, "", "E_PASSWORD", _password),
    Limit(
        "connections of a broker, of an address, of a user",
        LIMITS.connections_max,
        "limits.connections_max, connections_per_address_max, connections_per_user_max",
        "E_CONNECTIONS",
        test="tests/integration/broker/test_server_security.py::test_too_many_connections_are_turned_away_until_one_leaves",
    ),
    Limit(
        "seconds until a client has logged in",
        LIMITS.login_seconds,
        "limits.login_seconds",
        "E_LOGIN_TIMEOUT",
        test="tests/integration/broker/test_server_security.py::test_who_does_not_log_in_is_cut_off",
    ),
    Limit(
        "failed logins of a user or an address before it must wait",
        LIMITS.login_failures_max,
        "limits.login_failures_max",
        "E_LOGIN_THROTTLED",
        test="tests/integration/broker/test_server_security.py::test_too_many_failures_are_throttled",
    ),
    Limit(
        "bytes of a frame",
        LIMITS.frame_bytes_max,
        "limits.frame_bytes_max",
        "E_CODEC_LIMIT",
        test="tests/integration/broker/test_server_bad_input.py::test_what_is_wrong_is_answered_with_a_code",
    ),
    Limit("publications of a client without a receipt yet", outbox.UNCONFIRMED_MAX, "", WAITS, test=_OUTBOX_TEST),
    Limit("bytes of these, and one message more", outbox.UNCONFIRMED_BYTES_MAX, "", WAITS, test=_OUTBOX_TEST),
    Limit("bytes that a client has on the way to its socket", 2 * GATHER_BYTES, "", WAITS, test=_OUTBOX_TEST),
    Limit(
        "bytes of a client's publications that may wait for its own subscription",
        echo.EXPOSED_BYTES_MAX,
        "",
        WAITS,
        test="tests/integration/client/test_flow.py::test_who_publishes_and_subscribes_loses_nothing",
    ),
)


def _used(_: object) -> None:
    """It could be made."""


def beyond(limit: Limit) -> str:
    """The code with which one more than the limit is refused; the limit itself must be possible."""
    assert limit.probe is not None
    at = limit.probed_at or int(limit.value)
    limit.probe(at)
    try:
        limit.probe(at + 1)
    except TidingsError as error:
        return error.code
    return ""


PAGE = """# Limits

Everything that somebody outside can make larger has an end, and a code that says so at one more. What has a name in
the third column can be set ([configuration.md](configuration.md)); the rest is fixed. This page is made by
`python -m hardening.limits_table docs/limits.md`; a test holds that it is current, that each limit itself works,
and that one more is refused with its code, or waits.

| what | at most | setting | beyond it |
|---|---|---|---|
{rows}

## Cost of a message
Filters and messages within these limits can still be made to cost much together: a long pattern and a long
text, thousands
of patterns, selectors of thousands of operations. So the work for one message is counted, in steps of about a
nanosecond, and ends:

| account | steps | for |
|---|---|---|
| of each filter | {filter_steps:,} | a constraint or a selector's program; {message_steps:,} for all together |
| of the message | {message_steps:,} | what filters take beyond their own |
| of the search | {message_steps:,} | patterns' substrings in a text, once for all; {shared_steps:,} a text anyway |

- A LIKE run with `_` (the part between two `%`) takes about 2 steps a byte of the text up to 64 characters, and
  one more for each further 64; a plain substring at most 4 a byte; an operation of a selector 16; a comparison
  of texts an eighth a byte. Equality, comparison of numbers, prefixes and suffixes are found by the index and
  take none.
- A filter that finds the accounts used up is **given up for this message: it counts as unknown, and the
  subscription does not get the message**. It is counted in `tidings_filters_given_up_total`,
  the subscriber is notified within about a second (docs/wire.md, DROPPED, reason `cost`), and the next message is
  evaluated again from the start.
  Filters that need no more than their own are evaluated whatever others cost (up to {filters} of them that use
  all of it). In long texts cheaper patterns come before dearer ones, and older subscriptions mostly before
  younger, so that a client that adds many expensive ones loses its own.
- A selector of a queue's consumer that is given up does not accept the message, which stays for others; all
  consumers asked in turn share one budget. An access rule that is given up grants nothing.
- Between brokers nothing is lost: tables of other brokers' filters (covering) forward in doubt. A message that
  would carry more than {elements:,} elements (docs/wire.md, "Encoded predicate": about 32 KiB of text, or 1600
  numbers, in graded encoding) is not encoded, but sent to every broker that has told of an interest. Rows stay
  as they are, so brokers of different versions may be mixed.

## What others notice
One thread serves all clients, so what one of them makes it do, all others wait for. Every row above has a client that
is at the limit all the time, and an innocent client beside it that sends a small message to itself and waits for it:
`python -m hardening.innocent` measures how long, with a broker process and real sockets. The longest turn of the
event loop, in CPU time, is where the wait comes from; of the wait itself the 99th percentile is shown, which also has
what the machine did besides (attacker, broker and innocent client share two cores; {innocent_machine}).

| a client at the limit of | innocent client's p99, ms | longest turn, ms of CPU |
|---|---|---|
{innocent}

What keeps turns short:
- Input of one client is parsed for 5 ms, or 1,024 events for Python, before others come first.
- A step of the engine takes 32 requests; each 512 bytes of a request count as one more. The rest waits for the next
  turn, in order.
- Publishers wait while 4,096 messages are on their way to disk, because a batch is completed in one step.
- A commit is one step: hence the limit on its messages. So is reading a selector.

## Cost of one message
Milliseconds for one message at the limits, measured by `python -m bench.limits` ({machine}):

| matching | ms | filters given up |
|---|---|---|
{matching}

| message | decoding, ms | encoding, ms |
|---|---|---|
{coding}
"""
INNOCENT = Path(__file__).parents[1] / "bench" / "results" / "innocent.json"
COSTS = Path(__file__).parents[1] / "bench" / "results" / "limits.json"


def page() -> str:
    rows = [
        f"| {one.what} | {one.value:,} | {f'`{one.setting}`' if one.setting else ''} | {one.code} |".replace(
            "|  |", "| |"
        )
        for one in ALL
    ]
    measured = json.loads(COSTS.read_text())
    matching = [f"| {one['what']} | {one['milliseconds']:.1f} | {one['given_up']:,} |" for one in measured["matching"]]
    coding = [
        f"| {one['what']} | {one['decode_milliseconds']:.1f} | {one['encode_milliseconds']:.1f} |"
        for one in measured["coding"]
    ]
    noticed = json.loads(INNOCENT.read_text())
    innocent = [f"| {one['what']} | {one['p99_ms']:.1f} | {one['turn_cpu_ms']:.1f} |" for one in noticed["rows"]]
    return PAGE.format(
        innocent="\n".join(innocent),
        innocent_machine=noticed["environment"].get("cpu", "one machine"),
        rows="\n".join(rows),
        filter_steps=FILTER_STEPS,
        message_steps=MESSAGE_STEPS,
        shared_steps=8 * FILTER_STEPS,
        filters=MESSAGE_STEPS // FILTER_STEPS,
        elements=MESSAGE_ELEMENTS_MAX,
        machine=measured["environment"].get("cpu", "one core"),
        matching="\n".join(matching),
        coding="\n".join(coding),
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
