"""Exact filters against the paper's encodings of interests: `python -m bench.exact_filters`.

    python -m bench.exact_filters [--subscriptions 500] [--messages 300] [--save]

One router has subscriptions of a form; messages enter at another. For each encoding: bytes of the advertisement and CPU
time to make it, for each subscription; CPU time of a message where it enters; and of the messages that nobody wants
the share that is sent all the same. Subscriptions and messages are those of a market, a fleet and a log.
"""

import argparse
import time
from dataclasses import asdict, dataclass
from random import Random

from bench.harness import save, table
from bench.interests import FORMS, selector
from tidings.kernel.codec import encode_message
from tidings.kernel.forwarder import Forwarder, NetworkShape
from tidings.matching.encoding import Encoding
from tidings.matching.graded import GradedGrade
from tidings.model.codec import encode_predicate
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.selector import Selector
from tidings.model.values import Value
from tidings.routing.bdrp.advertisement import Change, encode_change
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.bdrp.local_interests import LocalInterests

ENCODINGS = {
    "exact": InterestEncoding(Encoding(grade=GradedGrade()), vectors=False, exact=True),
    "graded elements": InterestEncoding(Encoding(grade=GradedGrade()), vectors=False),
    "plain elements": InterestEncoding(vectors=False),
    "vectors, M = 256": InterestEncoding(Encoding(bits=256, hashes=7)),
    "vectors, M = 1024": InterestEncoding(Encoding(bits=1024, hashes=7)),
}
MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class EncodingCost:
    form: str
    encoding: str
    subscriptions: int
    messages: int
    rows: float  # for each subscription, as the next two
    link_bytes: float
    make_us: float
    match_us: float  # for each message
    in_vain: float  # share of the messages that nobody wants


def message(random: Random) -> dict[str, Value]:
    return {
        "sym": f"S{random.randrange(10_000):05}",
        "price": random.randrange(100_000) / 100,
        "lat": random.randrange(-80_000, 80_000) / 1000,
        "lon": random.randrange(-180_000, 180_000) / 1000,
        "path": f"/{random.randrange(1000)}/{random.randrange(1_000_000):x}",
    }


def measure(form: str, name: str, subscriptions: int, messages: int) -> EncodingCost:
    random, encoding = Random(1), ENCODINGS[name]
    forms = FORMS if form == MIXED else (form,)
    wanted = [Selector(selector(forms[number % len(forms)], number, random)) for number in range(subscriptions)]
    local, begin = LocalInterests(encoding), time.process_time()
    for one in wanted:
        local.add(encode_predicate(one.predicate))
    made = time.process_time() - begin
    rows = local.rows()
    plane = Forwarder()
    plane.join(NetworkShape(1, vectors=encoding.vectors, bits=encoding.encoding.bits, graded=encoding.graded))
    link = plane.open()
    plane.link(link, 2)
    plane.routes({2: 2})
    plane.interest(2, rows, ())
    entering = [message(random) for _ in range(messages)]
    encoded = [encode_message(Message(Destination("t"), attributes)) for attributes in entering]
    sent, spent = [], 0.0
    for data in encoded:
        begin = time.process_time()
        plane.enter(data, 0, 0)
        spent += time.process_time() - begin
        sent.append(bool(plane.take(link, 1 << 24, 0)))
    due = [any(one.matches(attributes) for one in wanted) for attributes in entering]
    assert not any(needed and not goes for needed, goes in zip(due, sent, strict=True)), "a message is lost"
    vain = sum(goes and not needed for needed, goes in zip(due, sent, strict=True)) / max(1, due.count(False))
    size = len(encode_change(Change(tuple(rows)), encoding.row_bytes))
    count = subscriptions
    return EncodingCost(
        form,
        name,
        count,
        messages,
        round(len(rows) / count, 2),
        round(size / count, 1),
        round(made / count * 1e6, 1),
        round(spent / messages * 1e6, 2),
        round(vain, 4),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=500)
    parser.add_argument("--messages", type=int, default=300)
    parser.add_argument("--save", action="store_true", help="write bench/results/exact_filters.json")
    arguments = parser.parse_args()
    found = [
        measure(form, name, arguments.subscriptions, arguments.messages)
        for form in (*FORMS, MIXED)
        for name in ENCODINGS
    ]
    columns = ("form", "encoding", "rows", "bytes", "µs to make", "µs a message", "in vain")
    rows = [(o.form, o.encoding, o.rows, o.link_bytes, o.make_us, o.match_us, f"{o.in_vain:.1%}") for o in found]
    table(f"{arguments.subscriptions} subscriptions of one router", columns, rows)
    if arguments.save:
        print("written to", save("exact_filters", {"costs": [asdict(one) for one in found]}))


if __name__ == "__main__":
    main()
