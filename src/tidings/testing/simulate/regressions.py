"""Seeds that failed once, by what was wrong; the tests run them for ever."""

SEEDS: dict[str, tuple[int, dict[str, str]]] = {
    "messages for several routers overtook earlier ones for one of them": (
        25,
        {"scheme": "bdrp", "tracking": "none"},
    ),
    "covering took messages by without a record of them": (0, {"scheme": "covering-active", "tracking": "bloom"}),
    "what was parked by one link was looked for by another": (1036, {}),
    "a message sent again while the first copy was on its way to disk was kept twice": (600, {}),
    "two brokers that came back before they were missed waited for each other to join": (148, {}),
    "what went in circles rested by a clock that was set back": (825, {}),
    "a link was let go that only the other end needed": (756, {}),
    "a newcomer waited for answers to what it had asked over links that were lost": (22151, {}),
}
