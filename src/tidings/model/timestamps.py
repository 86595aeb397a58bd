"""Moments as text, in the form of RFC 3339 and ISO 8601: with a time zone, to the millisecond.

>>> parse_timestamp("2025-11-01T12:26:40.123Z"), parse_timestamp("2025-11-01 13:26+01:00"), parse_timestamp("soon")
(1762000000123, 1761999960000, None)
"""

import re

_FORM = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,3}))?)?(Z|[+-]\d\d:\d\d))?",
    re.ASCII | re.IGNORECASE,
)
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def parse_timestamp(text: str) -> int | None:
    """Milliseconds since 1970 UTC; a date alone is its midnight in UTC. None: the text is no moment."""
    if (found := _FORM.fullmatch(text)) is None:
        return None
    year, month, day = (int(part) for part in found.group(1, 2, 3))
    hour, minute, second = (int(part or 0) for part in found.group(4, 5, 6))
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1] - (month == 2 and not leap):
        return None
    zone = _zone(found.group(8) or "Z")
    if hour > 23 or minute > 59 or second > 59 or zone is None:
        return None
    # Days since 0000-03-01: years begin in March, so that the leap day is the last one.
    shifted = year - (month <= 2)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + of_year - 719_468
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second - zone * 60
    return seconds * 1000 + int((found.group(7) or "0").ljust(3, "0"))


def _zone(text: str) -> int | None:
    """Minutes east of UTC."""
    if text in "zZ":
        return 0
    hours, minutes = int(text[1:3]), int(text[4:6])
    if hours > 23 or minutes > 59:
        return None
    return (hours * 60 + minutes) * (-1 if text[0] == "-" else 1)
