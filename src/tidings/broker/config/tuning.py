"""The table [tuning] of the configuration."""

from dataclasses import dataclass

from tidings.broker.config.schema_reader import setting


@dataclass(frozen=True, slots=True)
class TuningTable:
    read_moderation: bool = setting(
        True, "sleep for 60 µs between small reads of a lone fast publisher, while that raises its rate"
    )
    delayed_acknowledgements: bool = setting(
        True, "let TCP delay its acknowledgements for connections that do not wait for them; false: always at once"
    )
    link_batching: bool = setting(
        True, "wait up to network.gather_ms for more output on a busy link, while that does not lower its rate"
    )
    rare_garbage_collection: bool = setting(
        True, "search for cyclic garbage after 100,000 new objects instead of Python's 700"
    )
