"""Reason codes of MQTT 5.0 (section 2.4), and the error that carries one."""

from enum import IntEnum

from tidings.errors import RemoteProtocolError, TidingsError


class Reason(IntEnum):
    SUCCESS = 0x00
    GRANTED_1 = 0x01
    GRANTED_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION = 0x11
    UNSPECIFIED = 0x80
    MALFORMED = 0x81
    PROTOCOL_ERROR = 0x82
    NOT_SUPPORTED_HERE = 0x83  # Implementation specific error
    UNSUPPORTED_VERSION = 0x84
    CLIENT_ID = 0x85
    BAD_LOGIN = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION = 0x8C
    KEEP_ALIVE = 0x8D
    TAKEN_OVER = 0x8E
    TOPIC_FILTER = 0x8F
    TOPIC_NAME = 0x90
    PACKET_ID_IN_USE = 0x91
    PACKET_ID_UNKNOWN = 0x92
    RECEIVE_MAXIMUM = 0x93
    TOPIC_ALIAS = 0x94
    PACKET_TOO_LARGE = 0x95
    QUOTA = 0x97
    PAYLOAD_FORMAT = 0x99
    RETAIN_UNSUPPORTED = 0x9A
    QOS_UNSUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SHARED_UNSUPPORTED = 0x9E


# Return codes of CONNACK in MQTT 3.1.1 (table 3.1); reasons that are not here close the connection without a CONNACK.
RETURN_CODES = {
    Reason.SUCCESS: 0,
    Reason.UNSUPPORTED_VERSION: 1,
    Reason.CLIENT_ID: 2,
    Reason.SERVER_UNAVAILABLE: 3,
    Reason.SERVER_BUSY: 3,
    Reason.SHUTTING_DOWN: 3,
    Reason.NOT_SUPPORTED_HERE: 3,
    Reason.BAD_LOGIN: 4,
    Reason.NOT_AUTHORIZED: 5,
    Reason.BAD_AUTHENTICATION: 5,
}
_REASONS = {
    "E_LOGIN": Reason.BAD_LOGIN,
    "E_LOGIN_TOKEN": Reason.BAD_LOGIN,
    "E_LOGIN_THROTTLED": Reason.NOT_AUTHORIZED,
    "E_LOGIN_BUSY": Reason.SERVER_BUSY,
    "E_LOGIN_TIMEOUT": Reason.NOT_AUTHORIZED,
    "E_FORBIDDEN": Reason.NOT_AUTHORIZED,
    "E_CONNECTIONS": Reason.SERVER_BUSY,
    "E_SHUTDOWN": Reason.SHUTTING_DOWN,
    "E_MOVED": Reason.USE_ANOTHER_SERVER,
    "E_HEARTBEAT": Reason.KEEP_ALIVE,
    "E_STORE_FULL": Reason.QUOTA,
    "E_STORE_IO": Reason.SERVER_UNAVAILABLE,
    "E_SUBSCRIPTIONS": Reason.QUOTA,
    "E_CODEC_LIMIT": Reason.PACKET_TOO_LARGE,
    "E_MESSAGE_SIZE": Reason.PACKET_TOO_LARGE,
    "E_CLIENT_ID": Reason.CLIENT_ID,
}


class MqttError(RemoteProtocolError):
    """A violation of the protocol, or a request that is refused, with its reason code."""

    def __init__(self, reason: Reason, text: str, *, position: int | None = None) -> None:
        super().__init__(f"E_MQTT_{reason.name}", text, position=position)
        self.mqtt_reason = reason


def reason_of(error: TidingsError) -> Reason:
    """The reason code that tells a client of this error."""
    if isinstance(error, MqttError):
        return error.mqtt_reason
    if error.code.startswith("E_DESTINATION"):
        return Reason.TOPIC_NAME
    return _REASONS.get(error.code, Reason.UNSPECIFIED)
