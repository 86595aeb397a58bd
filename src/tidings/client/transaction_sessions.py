"""Transacted sessions of a client: their numbers on the wire, and the frames that begin and end them."""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

from tidings.client.connection.own_echoes import OwnEchoes
from tidings.client.transaction import Transaction
from tidings.errors import ConnectionLostError, LimitError
from tidings.model.values import Value
from tidings.protocols.native.frames import FrameType, control

SESSION_MAX = 0xFFFF  # a frame has 16 bits for it; 0 is no session


class Transacting(ABC):
    """The client's methods for transacted sessions."""

    def __init__(self, echoes: OwnEchoes) -> None:
        self._echoes = echoes
        self._transactions: dict[int, Transaction] = {}  # those that have a number

    @abstractmethod
    async def ready(self) -> None:
        """Return when there is a connection."""

    @abstractmethod
    def ask(
        self, make: Callable[[int], bytes], *, repeatable: bool, done_code: str = ""
    ) -> "asyncio.Future[dict[str, Value]]":
        """Send a request on the open connection; the future gets the fields of the answer."""

    async def begin(self, session: int) -> None:
        await self.ready()
        await self.ask_session(FrameType.BEGIN, session)

    async def commit(self, session: int, key: str = "", number: int = 0, digest: str = "") -> dict[str, Value]:
        """Commit; with a key, the answer has `duplicate` if this or a higher number was committed under it before."""
        await self.ready()
        try:
            fields: dict[str, Value] = {"key": key, "number": number}
            if digest:
                fields["digest"] = digest
            asked = self.ask_session(FrameType.COMMIT, session, **fields)
            self._echoes.committing(session)
            answer = await asked
        except ConnectionLostError as error:
            what = "commit again with the same key" if key else "check the effects before repeating it"
            reason = f"connection lost before the broker confirmed the commit ({error.reason}): {what}"
            raise ConnectionLostError("E_COMMIT_UNKNOWN", reason) from None
        return answer

    async def rollback(self, session: int) -> None:
        await self.ready()
        await self.ask_session(FrameType.ROLLBACK, session)

    def ask_session(self, type: FrameType, session: int, **fields: Value) -> "asyncio.Future[dict[str, Value]]":
        # Not repeated after a reconnection: the transaction ended with the connection, and the caller must know.
        return self.ask(partial(_frame, type, session, fields), repeatable=False)

    def take_session(self, transaction: Transaction) -> int:
        """A number that no other transaction has now."""
        for number in itertools.islice(itertools.count(1), SESSION_MAX):
            if number not in self._transactions:
                self._transactions[number] = transaction
                return number
        raise LimitError("E_TRANSACTIONS", f"a client can have at most {SESSION_MAX} open transactions")

    def check_session(self, number: int) -> None:
        """Raises if the transaction with this number was lost."""
        if number in self._transactions:
            self._transactions[number].check()

    def leave_session(self, number: int) -> None:
        self._transactions.pop(number, None)
        self._echoes.ended(number)


def _frame(type: FrameType, session: int, fields: dict[str, Value], receipt: int) -> bytes:
    return control(type, {**fields, "receipt": receipt}, session=session)
