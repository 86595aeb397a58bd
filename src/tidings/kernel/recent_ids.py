"""The ids of the last messages, in memory: so that one sent again after a broken connection is known.

>>> recent = RecentIds(least=2)
>>> for number in range(5):
...     recent.add(number.to_bytes(16))
>>> [number for number in range(5) if number.to_bytes(16) in recent]
[2, 3, 4]
"""

from tidings._kernel import RecentIds

__all__ = ["RecentIds"]
