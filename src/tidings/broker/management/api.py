"""The management API over HTTP: routing, protection of browsers, login, validation, errors as JSON.

Errors are objects {code, reason, remedy}. A POST must have the content type application/json: web pages of other
origins cannot send that, nor a DELETE, without a preflight request, which is never granted. Where a broker has no
users the host must be an address or localhost, so that no foreign name can be made to resolve to it.
"""

import asyncio
import json
import logging

from tidings.broker.http.server import HttpPage, HttpRequest
from tidings.broker.management.call import BrokerControl, Call
from tidings.broker.management.openapi import document
from tidings.broker.management.operations import JAEGER, OPERATIONS, PREFIX, Operation
from tidings.broker.management.parameters import Values, validated
from tidings.broker.management.session import ManagementConnection, ManagementServices
from tidings.errors import CodecError, ConnectionLostError, LimitError, SecurityError, StoreError, TidingsError
from tidings.protocols.http.exchange import basic_credentials, is_address

log = logging.getLogger("tidings.broker")

ANSWER_SECONDS = 30.0
DOCUMENT = f"{PREFIX}/openapi.json"
JSON = "application/json"
STATUS = {
    "E_API_PATH": 404,
    "E_API_METHOD": 405,
    "E_API_BODY_SIZE": 413,
    "E_API_CONTENT_TYPE": 415,
    "E_API_TIMEOUT": 503,
    "E_BROKER_REACHABLE": 409,
    "E_PEER_KNOWN": 409,
    "E_PEER_UNKNOWN": 404,
    "E_NO_NETWORK": 404,
    "E_NO_STANDBY": 409,
    "E_PEERS_WRITE": 503,
    "E_BROKER_UNKNOWN": 404,
    "E_NOTHING_HELD": 409,
    "E_CONNECTION_UNKNOWN": 404,
    "E_DURABLE_BUSY": 409,
    "E_DURABLE_UNKNOWN": 404,
    "E_LOGIN": 401,
    "E_LOGIN_BUSY": 429,
    "E_LOGIN_KEYS": 503,
    "E_LOGIN_TOKEN": 401,
    "E_LOGIN_THROTTLED": 429,
    "E_QUEUE_BUSY": 409,
    "E_QUEUE_FULL": 409,
    "E_QUEUE_NOT_EMPTY": 409,
    "E_QUEUE_UNKNOWN": 404,
}
REMEDIES = {
    "E_API_CONTENT_TYPE": "send the header Content-Type: application/json",
    "E_API_ORIGIN": "call the API from a page of its own origin, or without a browser",
    "E_API_PATH": f"see {DOCUMENT}",
    "E_API_METHOD": f"see {DOCUMENT}",
    "E_API_PARAMETER": f"see {DOCUMENT}",
    "E_API_BODY": f"see {DOCUMENT}",
    "E_FORBIDDEN": "ask an administrator for the right, see [[access]] in the configuration",
    "E_LOGIN": "send user and password with HTTP basic authentication",
    "E_LOGIN_BUSY": "try again later",
    "E_LOGIN_KEYS": "try again later; see jwt.keys in the configuration",
    "E_LOGIN_TOKEN": "get a new token for this broker",
    "E_LOGIN_THROTTLED": "try again later",
    "E_CONNECTIONS": "close other connections of this user, or raise limits.connections_per_user_max",
    "E_QUEUE_BUSY": "end the consumers, or force the deletion",
    "E_QUEUE_NOT_EMPTY": "purge the queue, or force the deletion",
    "E_QUEUE_UNKNOWN": "list the queues",
    "E_BROKER_REACHABLE": "stop that broker, wait until it cannot be reached, and call again",
    "E_PEER_KNOWN": "list the peers",
    "E_PEER_UNKNOWN": "list the peers; one that dials this broker is removed there",
    "E_PEER_SELF": "give the address of another broker",
    "E_PEER_ADDRESS": "give host:port of the other broker's links",
    "E_PEER_OVERLAY": "stop the broker that is to leave",
    "E_PEERS_WRITE": "make the broker's data directory writable",
    "E_NO_NETWORK": "see docs/networks.md",
    "E_NO_STANDBY": "see docs/howto/high_availability.md",
    "E_BROKER_UNKNOWN": "see /network for those that are known",
    "E_NOTHING_HELD": "see `held` in /health: there is nothing to release",
    "E_DURABLE_BUSY": "end the subscriber first",
    "E_DURABLE_UNKNOWN": "list the durable subscriptions",
    "E_CONNECTION_UNKNOWN": "list the connections",
}


class ManagementApi:
    def __init__(self, services: ManagementServices, control: BrokerControl) -> None:
        self._services, self._control = services, control
        self._document = json.dumps(document(), indent=1) + "\n"

    async def answer(self, request: HttpRequest) -> HttpPage:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._answer(request)
        except TimeoutError:
            return error_page(
                TidingsError("E_API_TIMEOUT", f"not done within {ANSWER_SECONDS:g} s; it may still happen")
            )
        except TidingsError as error:
            return error_page(error)

    async def _answer(self, request: HttpRequest) -> HttpPage:
        if request.path == DOCUMENT and request.method == "GET":
            return HttpPage(self._document, JSON)
        self._check_origin(request)
        operation, path = _find(request)
        if request.method == "POST" and request.headers.get("content-type", "").partition(";")[0].strip() != JSON:
            raise TidingsError("E_API_CONTENT_TYPE", f"the content type must be {JSON}")
        user, password = basic_credentials(request.headers.get("authorization", ""))
        if not (user or password or request.certificate or self._control.guard().open):
            raise SecurityError("E_LOGIN", "authentication is missing")
        connection = ManagementConnection(self._services, request.address, request.certificate)
        try:
            await connection.open(user, password)
            values = validated(operation.parameters, path, request.query, _body(request))
            try:
                found = await operation.handler(Call(values, connection, self._control))
            except TidingsError as error:
                self._audit(operation, connection, values, error)
                raise
            self._audit(operation, connection, values)
        finally:
            connection.close()
        return HttpPage(json.dumps(found, ensure_ascii=False, allow_nan=False, default=str) + "\n", JSON)

    def _audit(
        self, operation: Operation, connection: ManagementConnection, values: Values, error: TidingsError | None = None
    ) -> None:
        """Write down what the engine was not asked and so has not written down."""
        who = connection.principal.name, connection.address, connection.protocol
        if connection.asked:
            return
        if error is not None and error.code == "E_FORBIDDEN":
            self._control.audit.request_refused(*who, error.reason)
        elif operation.method != "GET":
            shown = {name: value for name, value in values.items() if name != "password"}
            self._control.audit.action(*who, operation.name, shown, "" if error is None else error.code)

    def _check_origin(self, request: HttpRequest) -> None:
        host, origin = request.headers.get("host", ""), request.headers.get("origin", "")
        if origin and origin.partition("://")[2] != host:
            raise SecurityError("E_API_ORIGIN", "requests from pages of other origins are refused")
        if self._control.guard().open and host and not is_address(host):
            raise SecurityError("E_API_ORIGIN", "a broker without users is managed by its address or as localhost only")


def _find(request: HttpRequest) -> tuple[Operation, dict[str, str]]:
    path = request.path.removeprefix(JAEGER if request.path.startswith(f"{JAEGER}/traces/") else PREFIX)
    methods: list[str] = []
    for one in OPERATIONS:
        if (found := one.match(path)) is not None:
            if one.method == request.method:
                return one, found
            methods.append(one.method)
    if methods or request.path == DOCUMENT:
        raise TidingsError(
            "E_API_METHOD", f"{request.method} is not allowed here; allowed: {', '.join(methods or ['GET'])}"
        )
    raise TidingsError("E_API_PATH", f"there is no {request.path[:100]}")


def _body(request: HttpRequest) -> object:
    if not request.body:
        return {}
    try:
        return json.loads(request.body)
    except (ValueError, RecursionError):
        raise TidingsError("E_API_BODY", "the body is not valid JSON") from None


def error_page(error: TidingsError) -> HttpPage:
    status = STATUS.get(error.code, _status(error))
    remedy = REMEDIES.get(error.code, "see the reason, and docs/management.md")
    body = json.dumps({"code": error.code, "reason": error.reason, "remedy": remedy}) + "\n"
    headers: tuple[tuple[str, str], ...] = ()
    if status == 401:
        headers = (("WWW-Authenticate", 'Basic realm="tidings", charset="UTF-8"'),)
    if status == 405:
        headers = (("Allow", error.reason.rpartition("allowed: ")[2]),)
    return HttpPage(body, JSON, status, headers)


def _status(error: TidingsError) -> int:
    match error:
        case SecurityError():
            return 403
        case LimitError():
            return 429
        case StoreError() | ConnectionLostError():
            return 503
        case CodecError() | _:
            return 400
