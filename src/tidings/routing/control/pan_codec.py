"""Pan's messages as bytes: the payload of a SchemeMessage, by the rules of `codec`. Ids have 128 bits.

>>> decode(encode(Probe(7)))
Probe(token=7)
>>> decode(bytes([9, 0x80]))
Traceback (most recent call last):
    ...
tidings.errors.CodecError: E_CONTROL_TRUNCATED at 2: a varint does not fit
"""

from typing import cast

from tidings.model.reader import Reader, put_varint
from tidings.overlay.pan.ids import Contact
from tidings.overlay.pan.machine import ALL, HOPS_MAX
from tidings.overlay.pan.messages import (
    Beat,
    Depart,
    Enter,
    Others,
    PanAsk,
    PanHello,
    PanMessage,
    PanReply,
    Probe,
    ProbeEcho,
    Routed,
    Spare,
)
from tidings.routing.control.codec import (
    BYTE,
    BYTES,
    FLAG,
    TEXT,
    U32,
    U64,
    Field,
    Layouts,
    by_number,
    decode_record,
    encode_record,
)

SCHEME = 16  # the number of Pan in SchemeMessage
ID_BYTES = 16
CONTACTS_MAX = 4096


def _get_id(reader: Reader) -> int:
    return int.from_bytes(reader.take(ID_BYTES, "an id"))


def _put_contact(out: bytearray, contact: Contact) -> None:
    for field, value in zip(_CONTACT, contact, strict=True):
        field.put(out, value)


def _get_contact(reader: Reader) -> Contact:
    return Contact(*[field.get(reader) for field in _CONTACT])


def _put_contacts(out: bytearray, contacts: tuple[Contact, ...]) -> None:
    put_varint(out, len(contacts))
    for contact in contacts:
        _put_contact(out, contact)


def _get_contacts(reader: Reader) -> tuple[Contact, ...]:
    count = reader.count()
    if count > CONTACTS_MAX:
        reader.fail("RANGE", f"{count} contacts; the limit is {CONTACTS_MAX}")
    return tuple([_get_contact(reader) for _ in range(count)])


def _get_latency(reader: Reader) -> float | None:
    micros = U64.get(reader)
    return None if micros == 0 else (micros - 1) / 1000


def _get_row(reader: Reader) -> int:
    return cast("int", BYTE.get(reader)) + ALL


ID = Field("id", lambda out, value: out.extend(value.to_bytes(ID_BYTES)), _get_id)
_CONTACT = (ID, U32, TEXT)
CONTACT = Field("contact", _put_contact, _get_contact)
CONTACTS = Field("contacts", _put_contacts, _get_contacts)
HOPS = Field("hops", BYTE.put, lambda reader: reader.varint(HOPS_MAX))
ROW = Field("row", lambda out, value: BYTE.put(out, value - ALL), _get_row)
LATENCY = Field(
    "latency", lambda out, value: U64.put(out, 0 if value is None else round(value * 1000) + 1), _get_latency
)

LAYOUTS: Layouts = {
    Routed: (1, (ID, CONTACT, BYTES, U64, HOPS)),
    PanReply: (2, (U64, BYTES)),
    Enter: (3, (CONTACT, BYTE, BYTE)),
    Others: (4, (CONTACTS, FLAG, FLAG)),
    PanAsk: (5, (ROW,)),
    PanHello: (6, (LATENCY, TEXT)),
    Beat: (7, (CONTACTS, FLAG)),
    Depart: (8, (CONTACTS,)),
    Probe: (9, (U64,)),
    ProbeEcho: (10, (U64,)),
    Spare: (11, ()),
}
_BY_NUMBER = by_number(LAYOUTS)


def encode(message: PanMessage) -> bytes:
    return encode_record(LAYOUTS, message)


def decode(data: bytes) -> PanMessage:
    return cast("PanMessage", decode_record(_BY_NUMBER, data, "message of Pan"))
