"""Requests to rendezvous nodes that wait for an answer."""

from collections.abc import Callable
from itertools import count

from tidings.routing.hermes.messages import Request, TypeAnswer, TypeRequest
from tidings.routing.hermes.options import HermesOptions

UNSURE = "E_TYPE_UNSURE"  # a rendezvous node's answer that is no answer yet; it is never told to a client
Then = Callable[[float, TypeAnswer], None]


class PendingLookups:
    def __init__(self, key_of: Callable[[str], int], options: HermesOptions) -> None:
        self._key_of, self._options = key_of, options
        self._tokens = count(1)
        self._waiting: dict[int, tuple[TypeRequest, Then]] = {}
        self._unsure: list[tuple[float, TypeRequest, Then]] = []  # asked again, until then
        self._out: list[Request] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._unsure)

    def ask(self, request: TypeRequest, then: Then) -> None:
        token = next(self._tokens)
        self._waiting[token] = (request, then)
        self._out.append(Request(token, self._key_of(request.name), request))

    def ask_for(self, now: float, request: TypeRequest, then: Then) -> None:
        """Ask for a type, again and again while its rendezvous node is not sure that there is none."""
        self._ask_until(now + 2 * self._options.refresh_ms, request, then)

    def answered(self, now: float, token: int, answer: TypeAnswer | None) -> None:
        """None: there was none."""
        request, then = self._waiting.pop(token)
        then(now, answer or TypeAnswer((), "E_TYPE_UNREACHABLE", f"no broker answers for event type {request.name!r}"))

    def tick(self) -> None:
        unsure, self._unsure = self._unsure, []
        for one in unsure:
            self._ask_until(*one)

    def take(self) -> list[Request]:
        out, self._out = self._out, []
        return out

    def _ask_until(self, last: float, request: TypeRequest, then: Then) -> None:
        def answered(now: float, answer: TypeAnswer) -> None:
            if answer.code == UNSURE and now < last:
                self._unsure.append((last, request, then))
            elif answer.code == UNSURE:
                then(now, TypeAnswer((), "E_TYPE_UNKNOWN", f"there is no event type {request.name!r}"))
            else:
                then(now, answer)

        self.ask(request, answered)
