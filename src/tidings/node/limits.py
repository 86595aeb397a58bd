"""Limits of one broker process: connections, frames, memory, logins; and of its users."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    connections_max: int = 20_000
    connections_per_address_max: int = 20_000
    connections_per_user_max: int = 20_000
    login_seconds: float = 10.0
    login_failures_max: int = 5  # then a user or an address must wait before it may try again
    login_lock_seconds: float = 1.0  # doubled with each further failure
    login_lock_seconds_max: float = 300.0
    frame_bytes_max: int = 16 << 20
    output_bytes_max: int = 1 << 20
    memory_bytes_max: int = 512 << 20
    stall_ms: int = 1000
    heartbeat_ms: int = 30_000  # the longest silence the broker offers


EVERY_USER = "*"


@dataclass(frozen=True, slots=True)
class UserQuota:
    """Limits of one user, or of each user; 0: none."""

    user: str = EVERY_USER
    messages_per_second: float = 0.0  # that the user's connections publish together
    bytes_per_second: float = 0.0
    connections: int = 0
    queues: int = 0  # that the user made
    stored_bytes: int = 0  # that these hold
