"""Our errors as AMQP's error conditions.

>>> condition_name("E_SELECTOR_SYNTAX"), condition_name("E_FORBIDDEN"), condition_name("E_WHATEVER")
('amqp:invalid-field', 'amqp:unauthorized-access', 'amqp:internal-error')
"""

from tidings.errors import TidingsError
from tidings.protocols.amqp.wire.types import AmqpValue, Described, symbol, ulong

ERROR = 0x1D
# The longest code that the error's code begins with decides.
_NAMES = {
    "E_": "amqp:internal-error",
    "E_ACCESS_CHANGED": "amqp:unauthorized-access",
    "E_AMQP_": "amqp:invalid-field",
    "E_AMQP_CREDIT": "amqp:link:transfer-limit-exceeded",
    "E_AMQP_DECODE": "amqp:decode-error",
    "E_AMQP_ERRANT": "amqp:session:errant-link",
    "E_AMQP_FRAMING": "amqp:connection:framing-error",
    "E_AMQP_HANDLE": "amqp:session:handle-in-use",
    "E_AMQP_HEADER": "amqp:connection:framing-error",
    "E_AMQP_LINKS": "amqp:resource-limit-exceeded",
    "E_AMQP_NOT_IMPLEMENTED": "amqp:not-implemented",
    "E_AMQP_PARTIAL": "amqp:resource-limit-exceeded",
    "E_AMQP_SECTION": "amqp:decode-error",
    "E_AMQP_SIZE": "amqp:link:message-size-exceeded",
    "E_AMQP_TRANSACTION_UNKNOWN": "amqp:transaction:unknown-id",
    "E_AMQP_UNATTACHED": "amqp:session:unattached-handle",
    "E_CODEC": "amqp:invalid-field",
    "E_CONNECTIONS": "amqp:resource-limit-exceeded",
    "E_AMQP_DELAY": "amqp:invalid-field",
    "E_DELAY_EVENT": "amqp:not-allowed",
    "E_DESTINATION": "amqp:invalid-field",
    "E_DURABLE_BUSY": "amqp:resource-locked",
    "E_DURABLE_UNKNOWN": "amqp:not-found",
    "E_FORBIDDEN": "amqp:unauthorized-access",
    "E_FRAME_FIELD": "amqp:invalid-field",
    "E_LOGIN": "amqp:unauthorized-access",
    "E_LOGIN_TOKEN": "amqp:unauthorized-access",
    "E_MAILBOXES": "amqp:resource-limit-exceeded",
    "E_MESSAGE": "amqp:invalid-field",
    "E_MOVED": "amqp:connection:forced",
    "E_NAME": "amqp:invalid-field",
    "E_QUEUE_": "amqp:not-allowed",
    "E_QUOTA_": "amqp:resource-limit-exceeded",
    "E_QUEUE_GONE": "amqp:not-found",
    "E_QUEUE_TEMPORARY": "amqp:not-found",
    "E_SELECTOR": "amqp:invalid-field",
    "E_SHARED_DIFFERS": "amqp:resource-locked",
    "E_SHUTDOWN": "amqp:connection:forced",
    "E_SLOW_CONSUMER": "amqp:resource-limit-exceeded",
    "E_SUBSCRIBE_NAME": "amqp:invalid-field",
    "E_SUBSCRIPTIONS": "amqp:resource-limit-exceeded",
    "E_TRANSACTION": "amqp:transaction:rollback",
    "E_TRANSACTIONS": "amqp:resource-limit-exceeded",
    "E_VALUE": "amqp:invalid-field",
}


def condition_name(code: str) -> str:
    return _NAMES[max((known for known in _NAMES if code.startswith(known)), key=len, default="E_")]


def condition_of(error: TidingsError) -> Described:
    info: dict[AmqpValue, AmqpValue] = {symbol("code"): error.code}
    if error.position is not None:
        info[symbol("position")] = error.position
    return Described(ulong(ERROR), [symbol(condition_name(error.code)), f"{error.code}: {error.reason}", info])
