"""The tables [[quotas]]: limits of users."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidings.broker.config.schema_reader import Problem, setting
from tidings.node.limits import EVERY_USER, UserQuota


@dataclass(frozen=True, slots=True)
class QuotaTable:
    user: str = setting(
        EVERY_USER, "the user that it limits; * for each user; the first quota that matches holds", reload=True
    )
    messages_per_second: float = setting(
        0.0,
        "messages that the user's connections may publish together; then they wait; 0: any",
        minimum=0,
        maximum=1e9,
        reload=True,
    )
    bytes_per_second: float = setting(
        0.0, "bytes of messages, in the same way; 0: any", minimum=0, maximum=1e12, reload=True
    )
    connections: int = setting(
        0,
        "connections of the user; 0: limits.connections_per_user_max applies",
        minimum=0,
        maximum=1 << 20,
        reload=True,
    )
    queues: int = setting(
        0, "queues that the user made and that exist; 0: any", minimum=0, maximum=1 << 31, reload=True
    )
    stored_bytes: int = setting(
        0, "bytes of messages that these queues hold together; 0: any", minimum=0, maximum=1 << 50, reload=True
    )

    def quota(self) -> UserQuota:
        return UserQuota(
            self.user,
            self.messages_per_second,
            self.bytes_per_second,
            self.connections,
            self.queues,
            self.stored_bytes,
        )


def quotas_of(tables: Iterable[QuotaTable]) -> tuple[UserQuota, ...]:
    return tuple(one.quota() for one in tables)


def problems(number: int, table: QuotaTable) -> Iterator[Problem]:
    if not table.user:
        yield Problem(("quotas", number, "user"), "it is empty", "name a user, or * for each user")
