"""Cost of forwarding between brokers in the kernel: `python -m bench.forwarding`.

CPU time for a message that enters the network (decoded, matched against the interests of all others, divided by next
hop, copied to the links) and for a copy that only passes through. The workload is the paper's: 10 attributes a message;
each router has 100 conjunctions of 1 to 5 constraints.
"""

from hardening.contracts.reference_forwarding import Forward, encode_forward

from bench.harness import best_seconds, save, table
from tidings.kernel.codec import encode_message
from tidings.kernel.forwarder import Forwarder, NetworkShape
from tidings.matching.encoding import Encoding
from tidings.matching.graded import GradedGrade
from tidings.matching.workload import Workload
from tidings.model.codec import encode_frame, encode_predicate
from tidings.routing.bdrp.interests import InterestEncoding

PUBLISH, FORWARD = 0x10, 0x41
MESSAGES, CONJUNCTIONS, LINKS = 2000, 100, 4
ENCODINGS = {
    "graded": InterestEncoding(Encoding(grade=GradedGrade()), vectors=False),
    "plain": InterestEncoding(),
}


def plane(encoding: InterestEncoding, routers: int) -> tuple[Forwarder, list[int], int]:
    """Router 1 of a network: a forwarder, its links and a client."""
    forwarder = Forwarder(memory_bytes_max=1 << 30)
    shape = NetworkShape(1, vectors=encoding.vectors, graded=encoding.graded, backlog_bytes_max=1 << 28)
    forwarder.join(shape)
    workload = Workload(1, conjunctions=CONJUNCTIONS)
    for router, predicate in enumerate(workload.predicates(0, routers), 2):
        forwarder.interest(router, encoding.rows(encode_predicate(predicate)), ())
    links = [forwarder.open() for _ in range(LINKS)]
    for neighbour, connection in enumerate(links, 2):
        forwarder.link(connection, neighbour)
    forwarder.routes({router: router % LINKS + 2 for router in range(2, routers + 2)})
    client = forwarder.open()
    forwarder.log_in(client, 1 << 20, False)
    return forwarder, links, client


def drain(forwarder: Forwarder, links: list[int]) -> None:
    for connection in links:
        while forwarder.take(connection, 1 << 22, 0):
            pass


def enter_us(name: str, routers: int) -> tuple[float, float]:
    """Microseconds a message, and its destinations on average."""
    forwarder, links, client = plane(ENCODINGS[name], routers)
    frames = [encode_frame(PUBLISH, bytes(4) + encode_message(one)) for one in Workload(2).messages(0, MESSAGES)]
    batches = [b"".join(frames[at : at + 100]) for at in range(0, MESSAGES, 100)]

    def work() -> None:
        for batch in batches:
            forwarder.feed_bytes(client, batch, 0)
        drain(forwarder, links)

    seconds = best_seconds(work)
    stats = forwarder.network_stats()
    return seconds / MESSAGES * 1e6, stats["destinations"] / max(1, stats["entered"])


def relay_us(routers: int) -> float:
    forwarder, links, _ = plane(ENCODINGS["plain"], routers)
    message = encode_message(Workload(2).messages(0, 1)[0])
    copy = encode_frame(FORWARD, encode_forward(Forward(9, message, routers=tuple(range(6, routers + 2)))))
    batch = copy * 100

    def work() -> None:
        for _ in range(MESSAGES // 100):
            forwarder.feed_bytes(links[0], batch, 0)
        drain(forwarder, links)

    return best_seconds(work) / MESSAGES * 1e6


def main() -> None:
    rows: list[tuple[object, ...]] = []
    for routers in (8, 100):
        for name in ENCODINGS:
            microseconds, destinations = enter_us(name, routers)
            rows.append(("enters", name, routers, f"{microseconds:.2f}", f"{destinations:.1f}"))
        rows.append(("passes through", "", routers, f"{relay_us(routers):.2f}", f"{routers - 4}"))
    columns = ("message", "encoding", "routers", "µs", "destinations")
    table(f"Forwarding, {LINKS} links, {CONJUNCTIONS} conjunctions a router", columns, rows)
    save("forwarding", {"rows": [dict(zip(columns, row, strict=True)) for row in rows]})


if __name__ == "__main__":
    main()
