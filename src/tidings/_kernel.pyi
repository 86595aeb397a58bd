"""Tidings' kernel: codec, exact matcher, encoded matrix, Bloom filter."""



def decode_message(data: object) -> tuple[bool, bool, int, bytes, str, tuple[str | None, str | None, str | None, int | None, int | None], dict[str, bool | int | float | str | bytes], bytes]: ...

def encode_message(persistent: bool, queue: bool, priority: int, id: bytes, destination: str, headers: tuple[str | None, str | None, str | None, int | None, int | None], properties: object, body: bytes) -> bytes: ...

def encode_messages(messages: list[tuple[bool, bool, int, bytes, str, tuple[str | None, str | None, str | None, int | None, int | None], dict[str, bool | int | float | str | bytes], bytes]]) -> bytes:
    """Each message after its length as u32."""

class MessageBatch:
    """What one socket read returned, decoded in one call."""

    @staticmethod
    def from_frames(data: object, payload_bytes_max: int = 1048576, stop_at_control: bool = False, derived: int = 31) -> MessageBatch: ...

    @staticmethod
    def from_messages(data: object, message_bytes_max: int = 1048576, derived: int = 31) -> MessageBatch:
        """Messages, each after its length as u32."""

    def __len__(self) -> int: ...

    @property
    def consumed(self) -> int: ...

    @property
    def fatal(self) -> tuple[str, str, int] | None:
        """Why decoding stopped: code, reason, position in the buffer."""

    def error(self, i: int) -> tuple[str, str, int] | None:
        """Code, reason and position in the message if entry i is broken."""

    def is_message(self, i: int) -> bool: ...

    def offset(self, i: int) -> int: ...

    def payload(self, i: int) -> bytes: ...

    def frame(self, i: int) -> tuple[int, int, int, bytes]:
        """
        The frame's type, flags and session, and what stands before the message.
        """

    def message(self, i: int) -> tuple[bool, bool, int, bytes, str, tuple[str | None, str | None, str | None, int | None, int | None], dict[str, bool | int | float | str | bytes], bytes]: ...

    def attributes(self, i: int) -> dict[str, bool | int | float | str | bytes]: ...

def predicate_check(blob: object) -> None:
    """
    Raises CodecError unless the blob is a valid predicate; its program is judged by Program.
    """

def holds(constraint: object, value: object | None) -> bool:
    """
    Whether an encoded constraint is true of a value (None: the attribute is missing).
    """

class Program:
    """A selector in postfix form, checked once, evaluated over batches."""

    def __init__(self, program: object) -> None: ...

    def evaluate(self, batch: MessageBatch) -> bytes:
        """One byte an entry: 0 false, 1 true, 2 unknown, 3 no message."""
