"""The scale-out with real brokers in network namespaces (tidings.lab.real_network): `python -m bench.real_network`.

Needs root, about three minutes and a machine that is not busy with other things. Results go to bench/results.
"""

from dataclasses import asdict

from bench.harness import save, table
from tidings.lab.real_network import ENCODINGS, RealMeasurement, measure

POINTS = ((4, 400.0), (8, 400.0))
SECONDS = 5.0


def main() -> None:
    found: list[RealMeasurement] = []
    for brokers, rate in POINTS:
        for variant in ENCODINGS:
            found.append(measure(brokers, variant, rate, SECONDS))
            print(".", end="", flush=True)
    rows = [
        (
            one.brokers,
            one.variant,
            one.rate,
            one.sent,
            f"{one.delivered} of {one.expected}",
            f"{one.frame_bytes / one.least_bytes:.2f}",
            f"{one.link_bytes / one.least_bytes:.2f}",
            f"{one.busiest:.3f}",
        )
        for one in found
    ]
    columns = ("brokers", "variant", "msg/s", "sent", "delivered", "frames ÷ least", "bytes ÷ least", "busiest link")
    table("Real brokers, links of 1 MB/s; bytes include TCP, IP, Ethernet and control messages", columns, rows)
    save("real_network", {"points": [asdict(one) for one in found]})


if __name__ == "__main__":
    main()
