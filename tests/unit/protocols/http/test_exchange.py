"""Requests are the same however their bytes are cut, and whatever comes ends in requests or one error."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import TidingsError
from tidings.protocols.http.exchange import Answer, HttpCall, HttpExchange

BODIES = st.lists(st.binary(max_size=200), min_size=1, max_size=5)


def requests_of(pieces: list[bytes], body_bytes_max: int = 1000) -> list[HttpCall]:
    exchange, found = HttpExchange((), body_bytes_max=body_bytes_max), []
    for piece in pieces:
        exchange.receive(piece)
        while (request := exchange.next_request(strict=False)) is not None:
            found.append(request)
            exchange.answer(Answer(200, b"{}"))
        exchange.take()
    return found


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(ends)]


@given(BODIES, st.booleans(), st.lists(st.integers(0, 1 << 16), max_size=20))
def test_requests_do_not_depend_on_how_they_are_cut(bodies: list[bytes], chunked: bool, places: list[int]) -> None:
    data = b""
    for number, body in enumerate(bodies):
        head = b"POST /messages?n=%d HTTP/1.1\r\nHost: localhost\r\nX-A: 1\r\nx-a: 2\r\n" % number
        if chunked and body:
            data += head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        else:
            data += head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    found = requests_of(cut(data, places))
    assert [(one.method, one.path, one.query, one.body) for one in found] == [
        ("POST", "/messages", f"n={number}", body) for number, body in enumerate(bodies)
    ]
    assert {one.headers["x-a"] for one in found} == {"1, 2"}


@given(
    st.lists(st.binary(max_size=300), max_size=10),
    st.sampled_from([b"", b"GET / HTTP/1.1\r\n", b"POST /m HTTP/1.1\r\nHost: h\r\n"]),
)
def test_garbage_ends_in_an_error_or_waits(pieces: list[bytes], before: bytes) -> None:
    found: list[HttpCall] = []
    code = "E_HTTP"
    try:
        found = requests_of([before, *pieces])
    except TidingsError as error:
        code = error.code
    assert code.startswith("E_HTTP")
    assert all(len(one.body) <= 1000 for one in found)


def test_what_follows_an_answer_that_came_early_is_not_read() -> None:
    exchange = HttpExchange((), body_bytes_max=10)
    exchange.receive(b"POST /messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n" + b"x" * 20)
    with pytest.raises(TidingsError, match="E_HTTP_BODY_SIZE"):
        exchange.next_request(strict=False)
    exchange.answer(Answer(413, b"{}"))
    assert exchange.over
    assert exchange.take().startswith(b"HTTP/1.1 413")
