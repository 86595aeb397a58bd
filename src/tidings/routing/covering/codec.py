"""Covering's messages as bytes: the payload of a SchemeMessage, by the rules of tidings.routing.control.codec.

One number, then the fields in the order of the record; predicates and messages as counted bytes in their own format.
The decoder refuses whatever the encoder would not write.

>>> decode(encode(Join(epoch=7, session=1, heard=0)))
Join(epoch=7, session=1, heard=0)
>>> decode(b"\\x03\\x01")
Traceback (most recent call last):
    ...
tidings.errors.CodecError: E_CONTROL_SHORT at 2: the message ends here
"""

from typing import assert_never

from tidings.errors import CodecError
from tidings.model.codec import decode_predicate, encode_predicate
from tidings.model.predicate import Predicate
from tidings.routing.control.codec import BYTES, FLAG, SCHEME_BYTES_MAX, U32, U64, ControlReader, put_varint
from tidings.routing.covering.messages import (
    Advertise,
    AdvertisementId,
    Change,
    CoveringMessage,
    Join,
    Packed,
    Prune,
    Publication,
    Subscribe,
    SubscriptionId,
    Unadvertise,
    Unsubscribe,
)

SCHEME = 2  # the number of this scheme in SchemeMessage
JOIN, ADVERTISE, UNADVERTISE, SUBSCRIBE, UNSUBSCRIBE, PACKED, PUBLICATION = range(1, 8)


def encode(message: CoveringMessage) -> bytes:
    out = bytearray()
    _put(out, message)
    return bytes(out)


def decode(data: bytes) -> CoveringMessage:
    if len(data) > SCHEME_BYTES_MAX:
        raise CodecError("E_CONTROL_SIZE", f"{len(data)} bytes; at most {SCHEME_BYTES_MAX}", position=0)
    reader = ControlReader(data)
    message = _get(reader)
    if reader.at != len(data):
        raise reader.fail("LONG", f"{len(data) - reader.at} bytes after the end")
    return message


def _put(out: bytearray, message: CoveringMessage) -> None:
    match message:
        case Join(epoch, session, heard):
            out.append(JOIN)
            for number in (epoch, session, heard):
                U64.put(out, number)
        case Advertise(id, filter):
            out.append(ADVERTISE)
            _put_id(out, id)
            BYTES.put(out, encode_predicate(filter))
        case Unadvertise(id):
            out.append(UNADVERTISE)
            _put_id(out, id)
        case Subscribe() | Unsubscribe():
            _put_change(out, message)
        case Packed(changes):
            out.append(PACKED)
            put_varint(out, len(changes))
            for change in changes:
                _put_change(out, change)
        case Publication(advertisement, distance, count, data):
            out.append(PUBLICATION)
            _put_id(out, advertisement)
            U32.put(out, distance)
            U32.put(out, count)
            BYTES.put(out, data)
        case _:
            assert_never(message)


def _put_change(out: bytearray, change: Change) -> None:
    if isinstance(change, Subscribe):
        out.append(SUBSCRIBE)
        _put_id(out, change.id)
        BYTES.put(out, encode_predicate(change.filter))
        return
    out.append(UNSUBSCRIBE)
    _put_id(out, change.id)
    FLAG.put(out, change.prunes is not None)
    if change.prunes is not None:
        put_varint(out, len(change.prunes))
        for prune in change.prunes:
            _put_id(out, prune.advertisement)
            U32.put(out, prune.hops)


def _put_id(out: bytearray, id: tuple[int, int]) -> None:
    U32.put(out, id[0])
    U64.put(out, id[1])


def _get(reader: ControlReader) -> CoveringMessage:
    number = reader.byte()
    match number:
        case 1:  # JOIN
            return Join(U64.get(reader), U64.get(reader), U64.get(reader))
        case 2:  # ADVERTISE
            return Advertise(AdvertisementId(*_get_id(reader)), _get_filter(reader))
        case 3:  # UNADVERTISE
            return Unadvertise(AdvertisementId(*_get_id(reader)))
        case 4 | 5:  # SUBSCRIBE, UNSUBSCRIBE
            return _get_change(reader, number)
        case 6:  # PACKED
            return Packed(tuple([_get_change(reader, reader.byte()) for _ in range(reader.count())]))
        case 7:  # PUBLICATION
            advertisement = AdvertisementId(*_get_id(reader))
            return Publication(advertisement, U32.get(reader), U32.get(reader), BYTES.get(reader))
    raise reader.fail("UNKNOWN", f"no covering message has the number {number}", reader.at - 1)


def _get_change(reader: ControlReader, number: int) -> Change:
    if number not in (SUBSCRIBE, UNSUBSCRIBE):
        raise reader.fail("UNKNOWN", f"{number} is neither Subscribe nor Unsubscribe", reader.at - 1)
    id = SubscriptionId(*_get_id(reader))
    if number == SUBSCRIBE:
        return Subscribe(id, _get_filter(reader))
    if not FLAG.get(reader):
        return Unsubscribe(id)
    count = range(reader.count())
    return Unsubscribe(id, tuple([Prune(AdvertisementId(*_get_id(reader)), U32.get(reader)) for _ in count]))


def _get_id(reader: ControlReader) -> tuple[int, int]:
    return U32.get(reader), U64.get(reader)


def _get_filter(reader: ControlReader) -> Predicate:
    data = BYTES.get(reader)
    start = reader.at - len(data)
    try:
        return decode_predicate(data)
    except CodecError as error:  # its position counts from the predicate's first byte
        raise CodecError(error.code, error.reason, position=start + (error.position or 0)) from None
