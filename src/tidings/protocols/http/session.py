"""A client that speaks HTTP: its session with the broker, without I/O.

    POST /messages                                  publish; answered when the broker has confirmed
    GET  /messages?destination=ticks.>&selector=…   subscribe; messages come as server-sent events

To the broker it is a client of the native protocol: users, access rules, limits, policies and metrics are the broker's
own. A connection logs in with its first request and keeps that user. A subscription takes the rest of its connection.
"""

import json
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, assert_never

from tidings.errors import LimitError, RemoteError, SecurityError, TidingsError
from tidings.kernel.codec import encode_message
from tidings.model.message_id import MessageIdSource
from tidings.protocols.http.exchange import JSON, METHODS, Answer, HttpCall, HttpExchange, basic_credentials
from tidings.protocols.http.messages import (
    event,
    message_event,
    message_of,
    publications,
    subscription_parameters,
    trace_context,
)
from tidings.protocols.native.frames import FrameType, unsigned
from tidings.protocols.native.peer import Delivered, Dropped, Ended, Fields, NativePeer, Said, Welcomed
from tidings.protocols.session import Caller

PATH = "/messages"
LOGIN_BYTES_MAX = 64 << 10  # of the body before the login
KEEP_ALIVE_MS = 15_000
SUBSCRIPTION = 1
STATUS = {
    "E_HTTP_BODY_SIZE": 413,
    "E_HTTP_CONTENT_TYPE": 415,
    "E_HTTP_METHOD": 405,
    "E_HTTP_PATH": 404,
    "E_HTTP_ORIGIN": 403,
    "E_LOGIN": 401,
    "E_LOGIN_BUSY": 429,
    "E_LOGIN_KEYS": 503,
    "E_LOGIN_TOKEN": 401,
    "E_LOGIN_THROTTLED": 429,
    "E_LIMIT": 429,
    "E_FORBIDDEN": 403,
    "E_QUEUE_FULL": 409,
    "E_STORE_FULL": 507,
    "E_MESSAGE_ID": 429,
}


class HttpState(Enum):
    NEW = "new"  # nobody has logged in
    LOGIN = "login"
    READY = "ready"
    STREAM = "stream"  # a subscription's events until the end
    OVER = "over"


class HttpSession:
    """`origins`: of web pages that may send requests."""

    def __init__(self, origins: tuple[str, ...], caller: Caller) -> None:
        self.state = HttpState.NEW
        self._caller = caller
        self._peer = NativePeer(caller.frame_bytes_max + LOGIN_BYTES_MAX)
        self._exchange = HttpExchange(origins, body_bytes_max=LOGIN_BYTES_MAX)
        self._request: HttpCall | None = None  # the one that is being answered
        self._authorization = ""
        self._ids: MessageIdSource | None = None
        self._now_ms = self._beat_ms = 0

    # --- interface of gateways ------------------------------------------------------------------------------------

    def receive(self, data: bytes, now_ms: int) -> None:
        """Bytes from the client. An error ends the connection, once what `take_output` has is sent."""
        self._now_ms = now_ms
        if self.state is HttpState.OVER:
            return
        self._exchange.receive(data)
        self._read()

    def frames(self, data: bytes, now_ms: int) -> None:
        """Native frames from the broker."""
        self._now_ms = now_ms
        self._peer.receive(data, self._said)

    def tick(self, now_ms: int) -> None:
        self._now_ms = now_ms
        if self.state is HttpState.STREAM and now_ms - self._beat_ms >= KEEP_ALIVE_MS:
            self._beat_ms = now_ms
            self._exchange.stream(b": keep-alive\n\n")

    def lost(self) -> None:
        """The connection is closed."""
        self.state = HttpState.OVER

    def take_frames(self) -> bytes:
        """For the broker."""
        return self._peer.take()

    def take_output(self) -> bytes:
        """For the client."""
        return self._exchange.take()

    @property
    def waiting_bytes(self) -> int:
        return 0

    # --- requests -------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Take requests, one after the other."""
        while self._request is None and self.state in (HttpState.NEW, HttpState.READY):
            try:
                request = self._exchange.next_request(strict=self._caller.open)
                if request is None:
                    return
                self._request = request
                self._start(request)
            except TidingsError as error:
                self._refuse(error)

    def _start(self, request: HttpCall) -> None:
        _check(request)
        if request.method == "OPTIONS":
            self._done(Answer(204, b"", (("Allow", METHODS),)))
            return
        authorization = request.headers.get("authorization", "")
        if self.state is HttpState.NEW:
            user, password = basic_credentials(authorization)
            if not (user or password or self._caller.certificate or self._caller.open):
                raise SecurityError("E_LOGIN", "authentication is missing: send user and password (basic)")
            self.state, self._authorization = HttpState.LOGIN, authorization
            self._peer.hello(user, password)
        elif authorization != self._authorization:
            raise SecurityError("E_LOGIN", "this connection is logged in as another user; open a new one")
        else:
            self._perform(request)

    def _perform(self, request: HttpCall) -> None:
        if request.method == "POST":
            self._publish(request)
        else:
            self._subscribe(request)

    def _publish(self, request: HttpCall) -> None:
        assert self._ids is not None
        read, several = publications(request.body)
        encoded, context = [], trace_context(request.headers)
        for one in read:
            message_id = self._ids.next(self._now_ms)
            if message_id is None:
                raise LimitError("E_MESSAGE_ID", "too many messages in this millisecond; try again")
            encoded.append((str(message_id), encode_message(message_of(one, message_id, context))))
        results: list[dict[str, Any]] = [{"id": message_id} for message_id, _ in encoded]
        answered = partial(self._published, results, several, [len(results)], [])
        for number, (_, message) in enumerate(encoded):
            self._peer.publish(message, partial(answered, number))

    def _published(
        self,
        results: list[dict[str, Any]],
        several: bool,
        left: list[int],
        errors: list[RemoteError],
        number: int,
        error: RemoteError | None,
    ) -> None:
        left[0] -= 1
        if error is not None:
            errors.append(error)
            results[number] = _described(error)
        if not left[0]:
            status = _status(errors[0]) if errors else 200
            self._done(_json(status, {"results": results} if several else results[0]))

    def _subscribe(self, request: HttpCall) -> None:
        wanted = subscription_parameters(request.query)
        fields: Fields = {"subscription": SUBSCRIPTION, **wanted}
        self._peer.ask(FrameType.SUBSCRIBE, fields, self._subscribed)

    def _subscribed(self, answer: Fields | RemoteError) -> None:
        if isinstance(answer, RemoteError):
            self._refuse(answer)
            return
        self.state, self._beat_ms = HttpState.STREAM, self._now_ms
        self._exchange.begin_stream()
        self._exchange.stream(b": subscribed\n\n")

    # --- what the broker says -------------------------------------------------------------------------------------

    def _said(self, said: Said) -> None:
        match said:
            case Welcomed(fields):
                self._welcomed(fields)
            case Delivered():
                if self.state is HttpState.STREAM:
                    self._exchange.stream(message_event(said.message, said.attempt))
            case Dropped():
                if self.state is HttpState.STREAM:
                    self._exchange.stream(event("dropped", {"count": said.count, "reason": said.reason}))
            case Ended(error):
                self._ended(error)
            case _:
                assert_never(said)

    def _welcomed(self, fields: Fields) -> None:
        self._ids = MessageIdSource(unsigned(fields, "publisher"), unsigned(fields, "broker"))
        self._exchange.body_bytes_max = unsigned(fields, "frame_max") or self._caller.frame_bytes_max
        self.state = HttpState.READY
        if self._request is not None:
            self._try(partial(self._perform, self._request))

    def _ended(self, error: RemoteError) -> None:
        """The broker ends the connection."""
        if self.state is HttpState.STREAM:
            self._exchange.stream(event("error", _described(error)))
            self._exchange.end_stream()
        elif self._request is not None:
            self._exchange.answer(_error_answer(error))
        self.state = HttpState.OVER

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except TidingsError as error:
            self._refuse(error)

    def _refuse(self, error: TidingsError) -> None:
        """Answer with an error. Where it is unclear what follows on the connection, that was the last answer."""
        self._done(_error_answer(error))

    def _done(self, answer: Answer) -> None:
        self._exchange.answer(answer)
        self._request = None
        if self._exchange.over:
            self.state = HttpState.OVER
            self._peer.close()
        else:
            self._read()
        self._caller.wake()


def _check(request: HttpCall) -> None:
    if request.path != PATH:
        raise TidingsError("E_HTTP_PATH", f"there is no {request.path[:100]}; see {PATH}")
    if request.method not in ("GET", "POST", "OPTIONS"):
        raise TidingsError("E_HTTP_METHOD", f"{request.method[:20]} is not allowed; allowed: {METHODS}")
    if request.method == "POST" and request.headers.get("content-type", "").partition(";")[0].strip() != JSON:
        raise TidingsError("E_HTTP_CONTENT_TYPE", f"the content type must be {JSON}")


def _json(status: int, body: dict[str, Any], headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    return Answer(status, json.dumps(body).encode() + b"\n", headers)


def _described(error: TidingsError) -> dict[str, Any]:
    return {"code": error.code, "reason": error.reason}


def _error_answer(error: TidingsError) -> Answer:
    status = _status(error)
    headers: tuple[tuple[str, str], ...] = ()
    if status == 401:
        headers = (("WWW-Authenticate", 'Basic realm="tidings", charset="UTF-8"'),)
    elif status == 405:
        headers = (("Allow", METHODS),)
    return _json(status, _described(error), headers)


def _status(error: TidingsError) -> int:
    return STATUS.get(error.code, 400)
