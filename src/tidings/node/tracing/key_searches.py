"""Finds messages by the value of an attribute: asks all brokers, each of which knows what was published there.

    client ──FindMessages──► KeySearches ──┬── this broker: Inquire ──► driver (archive) ──► resolved
                                           └── others: KeyQuestion ──► links ──► … ──► KeyAnswered

As with traces, a broker that does not answer is asked once more, and then named as one that could not be asked.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tidings.errors import CodecError, LimitError, SecurityError, UsageError
from tidings.node.clients.session import Connection
from tidings.node.requests import Done, Failed, FindMessages
from tidings.node.tracing.searches import (
    EVERYWHERE,
    OWN_PATIENCE_MS,
    PATIENCE_MS,
    SEARCHES_MAX,
    TICK_MS_MAX,
    Post,
)
from tidings.tracking.query.key_codec import (
    MESSAGES_MAX,
    NAME_BYTES_MAX,
    FoundMessages,
    KeyAnswered,
    KeyQuestion,
    decode,
    encode,
    to_json,
)
from tidings.tracking.recording.key_notes import query_hashes
from tidings.tracking.trace_answer import KeyAnswer, KeyQuery


@dataclass(slots=True)
class _Search:
    connection: int
    receipt: int
    query: KeyQuery
    waiting: dict[int, tuple[int, int]]  # broker -> patience left in ms, how often asked
    answers: list[KeyAnswer] = field(default_factory=list)
    unasked: list[int] = field(default_factory=list)

    def found(self) -> FoundMessages:
        messages = sorted({one for answer in self.answers for one in answer.messages}, key=lambda one: one.ms)
        newest = tuple(messages[-self.query.count :])
        more = len(messages) > len(newest) or any(answer.more for answer in self.answers)
        recording = [answer for answer in self.answers if answer.recorded]
        since_ms = max((answer.since_ms for answer in recording), default=0)
        unrecorded = tuple(sorted(answer.broker for answer in self.answers if not answer.recorded))
        return FoundMessages(newest, more, since_ms, tuple(sorted(self.unasked)), unrecorded)


class KeySearches:
    def __init__(
        self,
        broker: int,
        post: Post | None,
        inquire: Callable[[int, int, KeyQuery], None],
        reply: Callable[[int, Done | Failed], None],
    ) -> None:
        """`inquire(now_ms, number, query)` asks this broker's own records; the answer comes to `resolved`."""
        self._broker, self._post, self._inquire, self._reply = broker, post, inquire, reply
        self._searches: dict[int, _Search] = {}
        self._asked: dict[int, tuple[int, int]] = {}  # inquiry -> another broker and its number
        self._own: dict[int, int] = {}  # inquiry -> search
        self._next = 1
        self._ticked_ms = 0

    def start(self, now_ms: int, client: Connection, request: FindMessages) -> None:
        if not (client.principal.may("trace", EVERYWHERE) or client.principal.may("monitor", EVERYWHERE)):
            raise SecurityError("E_FORBIDDEN", f"{client.principal.name} may not trace messages")
        if len(self._searches) >= SEARCHES_MAX:
            raise LimitError("E_TRACES", f"at most {SEARCHES_MAX} searches run at a time")
        if not 0 < len(request.name.encode()) <= NAME_BYTES_MAX:
            raise UsageError("E_TRACE_KEY", f"an attribute's name has 1 to {NAME_BYTES_MAX} bytes")
        if not 1 <= request.count <= MESSAGES_MAX:
            raise UsageError("E_TRACE_KEY", f"a search finds 1 to {MESSAGES_MAX} messages, not {request.count}")
        hashes = query_hashes(request.name, request.value)
        query = KeyQuery(request.name, hashes, request.first_ms, request.last_ms, request.count)
        others = [] if self._post is None else [one for one in self._post.topology() if one != self._broker]
        number = self._number()
        search = self._searches[number] = _Search(client.number, request.receipt, query, {})
        search.waiting[self._broker] = OWN_PATIENCE_MS, 2
        search.waiting |= dict.fromkeys(others, (PATIENCE_MS, 1))
        for broker in others:
            if not self._ask(number, search, broker):
                self._failed(number, search, broker)
        inquiry = self._number()
        self._own[inquiry] = number
        self._inquire(now_ms, inquiry, query)

    def resolved(self, now_ms: int, inquiry: int, answer: KeyAnswer) -> None:
        """Take the answer of this broker's own records."""
        if inquiry in self._asked:
            asker, number = self._asked.pop(inquiry)
            self._send(asker, encode(KeyAnswered(number, answer)))
        elif inquiry in self._own:
            self._answered(self._own.pop(inquiry), answer)

    def datagram(self, now_ms: int, source: int, data: bytes) -> None:
        """From another broker; what cannot be read is as good as lost."""
        try:
            record = decode(data)
        except CodecError:
            return
        if isinstance(record, KeyQuestion):
            inquiry = self._number()
            self._asked[inquiry] = source, record.number
            self._inquire(now_ms, inquiry, record.query)
        elif record.answer.broker == source:
            self._answered(record.number, record.answer)

    def tick(self, now_ms: int) -> None:
        passed_ms = min(max(now_ms - self._ticked_ms, 0), TICK_MS_MAX)
        self._ticked_ms = now_ms
        for number, search in list(self._searches.items()):
            for broker, (left_ms, times) in list(search.waiting.items()):
                if left_ms > passed_ms:
                    search.waiting[broker] = left_ms - passed_ms, times
                elif times == 1 and self._ask(number, search, broker):
                    search.waiting[broker] = PATIENCE_MS, 2
                else:
                    self._failed(number, search, broker)

    def _ask(self, number: int, search: _Search, broker: int) -> bool:
        return self._send(broker, encode(KeyQuestion(number, search.query)))

    def _answered(self, number: int, answer: KeyAnswer) -> None:
        search = self._searches.get(number)
        if search is None or search.waiting.pop(answer.broker, None) is None:
            return  # too late, or asked twice and answered twice
        search.answers.append(answer)
        self._finish(number, search)

    def _failed(self, number: int, search: _Search, broker: int) -> None:
        if search.waiting.pop(broker, None) is not None:
            search.unasked.append(broker)
            self._finish(number, search)

    def _finish(self, number: int, search: _Search) -> None:
        if not search.waiting and self._searches.pop(number, None) is not None:
            self._reply(search.connection, Done(search.receipt, {"found": to_json(search.found())}))

    def _send(self, broker: int, letter: bytes) -> bool:
        return self._post is not None and self._post.post(broker, letter)

    def _number(self) -> int:
        self._next += 1
        return self._next - 1
