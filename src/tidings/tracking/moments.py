"""Moments as text, by arithmetic alone: pure layers do not use the clock."""

from typing import TypeAlias

Span: TypeAlias = tuple[int, int]  # of milliseconds: the first and the last


def utc(ms: int) -> str:
    """Formats milliseconds since 1970 as a date.

    >>> utc(1_762_000_000_123), utc(951_782_400_000)
    ('2025-11-01 12:26:40.123 UTC', '2000-02-29 00:00:00.000 UTC')
    """
    days, rest = divmod(ms, 86_400_000)
    # Days since 0000-03-01: years begin in March, so that the leap day is the last one.
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    date = f"{era * 400 + year + (month >= 10):04}-{(month + 2) % 12 + 1:02}-{day - (153 * month + 2) // 5 + 1:02}"
    seconds, millis = divmod(rest, 1000)
    return f"{date} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{millis:03} UTC"
