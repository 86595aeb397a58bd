"""The table [store] of the configuration."""

from dataclasses import dataclass

from tidings.broker.config.schema_reader import setting


@dataclass(frozen=True, slots=True)
class StoreTable:
    standby: bool = setting(
        False,
        "this broker is one of several processes for the same store: whoever has its lease serves, the others wait and "
        "one takes over when the lease is free; false: a store in use is an error",
    )
