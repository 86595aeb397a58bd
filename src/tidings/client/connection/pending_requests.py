"""Requests to the broker that are not answered yet, and those to repeat on another connection."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidings.client.connection.answers import again
from tidings.errors import TidingsError
from tidings.model.values import Value


@dataclass(slots=True)
class Asked:
    make: Callable[[int], bytes]  # from its receipt number
    future: "asyncio.Future[dict[str, Value]]"
    repeatable: bool  # valid on another connection too
    done_code: str  # the error by which a broker says that it did it the first time
    repeated: bool = False


class Requests:
    def __init__(self) -> None:
        self._asked: dict[int, Asked] = {}
        self._receipts = itertools.count(1)

    def __len__(self) -> int:
        return len(self._asked)

    def next_receipt(self) -> int:
        return next(self._receipts) % 0xFFFF_FFFF + 1

    def add(
        self, make: Callable[[int], bytes], *, repeatable: bool, done_code: str = ""
    ) -> "tuple[bytes, asyncio.Future[dict[str, Value]]]":
        """The frame to send and the future of its answer. A request that cannot be encoded is not kept."""
        receipt = self.next_receipt()
        frame = make(receipt)
        future: asyncio.Future[dict[str, Value]] = asyncio.get_running_loop().create_future()
        self._asked[receipt] = Asked(make, future, repeatable, done_code)
        future.add_done_callback(lambda _: self._asked.pop(receipt, None))
        return frame, future

    def answered(self, receipt: int, fields: dict[str, Value]) -> None:
        request = self._asked.pop(receipt, None)
        if request is not None and not request.future.done():
            request.future.set_result(fields)

    def failed(self, receipt: int, error: TidingsError) -> bool:
        """Fail the request with this receipt; False if none waits for it."""
        request = self._asked.pop(receipt, None)
        if request is None or request.future.done():
            return False
        if request.repeated and error.code == request.done_code:
            request.future.set_result({})
        else:
            request.future.set_exception(error)
        return True

    def repeat(self) -> Iterator[bytes]:
        """For a new connection."""
        for receipt, request in self._asked.items():
            if request.repeatable:
                request.repeated = True
                yield request.make(receipt)

    def lost(self, error: TidingsError) -> None:
        """The connection is gone, and with it what was asked of it alone."""
        self._end([one for one in self._asked.values() if not one.repeatable], error)
        self._asked = {number: one for number, one in self._asked.items() if one.repeatable}

    def give_up(self, error: TidingsError) -> None:
        self._end(list(self._asked.values()), error)
        self._asked.clear()

    @staticmethod
    def _end(requests: list[Asked], error: TidingsError) -> None:
        for request in requests:
            if not request.future.done():
                request.future.set_exception(again(error))
