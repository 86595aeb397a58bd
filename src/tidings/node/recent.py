"""The ids of the last messages, in memory: so that one sent again after a broken connection is known.

Two sets that take turns: when the young one is full it becomes the old one, and the old one goes. So between
`least` and twice as many are remembered. Taking out the oldest one by one is slower than it looks: a dictionary whose
first entries are gone walks over their places each time it is asked for its first one.

>>> recent = Recent(least=2)
>>> for number in range(5):
...     recent.add(number.to_bytes(16))
>>> [number for number in range(5) if number.to_bytes(16) in recent]
[2, 3, 4]
"""

LEAST = 100_000


class Recent:
    def __init__(self, least: int = LEAST) -> None:
        self._least = least
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()

    def __contains__(self, message_id: bytes) -> bool:
        return message_id in self._young or message_id in self._old

    def add(self, message_id: bytes) -> None:
        if len(self._young) >= self._least:
            self._old, self._young = self._young, set()
        self._young.add(message_id)
