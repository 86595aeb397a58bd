"""Limits of the tracking settings: a broker accepts no others, and the assistant proposes no others."""

BITS_MAX = 1 << 32  # m
CAPACITY_MAX = 1 << 31  # n
PERSIST_MS_MIN = 100  # T_p: storing more often would do nothing else
TIME_MS_MAX = 3_600_000  # of T_p, T_s and T_j
SKEW_MS_MIN = 1  # T_s
BETWEEN_BROKERS_MS = 1000  # how far brokers' clocks differ unless more is said; T_s + T_j at least
EFPP_MIN, EFPP_MAX = 1e-15, 0.5
RATE_MIN, RATE_MAX = 0.001, 1e9  # messages per second
