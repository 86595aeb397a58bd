"""Covering's messages as bytes: the payload of a SchemeMessage, by the rules of tidings.routing.control.codec.

One number, then the fields in the order of the record; predicates and messages as counted bytes in their own format.
The decoder refuses whatever the encoder would not write.

>>> decode(encode(Join(epoch=7, session=1, heard=0)))
Join(epoch=7, session=1, heard=0)
>>> decode(b"\\x03\\x01")
Traceback (most recent call last):
    ...
tidings.errors.CodecError: E_CONTROL_TRUNCATED at 2: a varint does not fit
"""

from typing import assert_never

from tidings.errors import CodecError
from tidings.model.reader import Reader, put_varint
from tidings.routing.control.codec import BYTES, FLAG, PREDICATE, SCHEME_BYTES_MAX, U32, U64
from tidings.routing.covering.messages import (
    AdvertisementId,
    Change,
    CoveringAdvertise,
    CoveringMessage,
    CoveringPublication,
    CoveringSubscribe,
    CoveringUnadvertise,
    CoveringUnsubscribe,
    FilterId,
    Join,
    Packed,
    Prune,
)

SCHEME = 2  # the number of this scheme in SchemeMessage
JOIN, ADVERTISE, UNADVERTISE, SUBSCRIBE, UNSUBSCRIBE, PACKED, PUBLICATION = range(1, 8)


def encode(message: CoveringMessage) -> bytes:
    out = bytearray()
    _put(out, message)
    return bytes(out)


def decode(data: bytes) -> CoveringMessage:
    if len(data) > SCHEME_BYTES_MAX:
        raise CodecError(
            "E_CONTROL_SIZE", f"covering message of {len(data)} bytes; the limit is {SCHEME_BYTES_MAX}", position=0
        )
    reader = Reader(data, family="CONTROL")
    message = _get(reader)
    reader.finish("the message")
    return message


def _put(out: bytearray, message: CoveringMessage) -> None:
    match message:
        case Join(epoch, session, heard):
            out.append(JOIN)
            for number in (epoch, session, heard):
                U64.put(out, number)
        case CoveringAdvertise(id, filter):
            out.append(ADVERTISE)
            _put_id(out, id)
            PREDICATE.put(out, filter)
        case CoveringUnadvertise(id):
            out.append(UNADVERTISE)
            _put_id(out, id)
        case CoveringSubscribe() | CoveringUnsubscribe():
            _put_change(out, message)
        case Packed(changes):
            out.append(PACKED)
            put_varint(out, len(changes))
            for change in changes:
                _put_change(out, change)
        case CoveringPublication(advertisement, distance, count, data):
            out.append(PUBLICATION)
            _put_id(out, advertisement)
            U32.put(out, distance)
            U32.put(out, count)
            BYTES.put(out, data)
        case _:
            assert_never(message)


def _put_change(out: bytearray, change: Change) -> None:
    if isinstance(change, CoveringSubscribe):
        out.append(SUBSCRIBE)
        _put_id(out, change.id)
        PREDICATE.put(out, change.filter)
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


def _get(reader: Reader) -> CoveringMessage:
    number = reader.byte()
    match number:
        case 1:  # JOIN
            return Join(U64.get(reader), U64.get(reader), U64.get(reader))
        case 2:  # ADVERTISE
            return CoveringAdvertise(AdvertisementId(*_get_id(reader)), PREDICATE.get(reader))
        case 3:  # UNADVERTISE
            return CoveringUnadvertise(AdvertisementId(*_get_id(reader)))
        case 4 | 5:  # SUBSCRIBE, UNSUBSCRIBE
            return _get_change(reader, number)
        case 6:  # PACKED
            return Packed(tuple([_get_change(reader, reader.byte()) for _ in range(reader.count())]))
        case 7:  # PUBLICATION
            advertisement = AdvertisementId(*_get_id(reader))
            return CoveringPublication(advertisement, U32.get(reader), U32.get(reader), BYTES.get(reader))
    return reader.fail("UNKNOWN", f"unknown number {number} of a covering message", reader.position - 1)


def _get_change(reader: Reader, number: int) -> Change:
    if number not in (SUBSCRIBE, UNSUBSCRIBE):
        reader.fail("UNKNOWN", f"{number} is neither Subscribe nor Unsubscribe", reader.position - 1)
    id = FilterId(*_get_id(reader))
    if number == SUBSCRIBE:
        return CoveringSubscribe(id, PREDICATE.get(reader))
    if not FLAG.get(reader):
        return CoveringUnsubscribe(id)
    count = range(reader.count())
    return CoveringUnsubscribe(id, tuple([Prune(AdvertisementId(*_get_id(reader)), U32.get(reader)) for _ in count]))


def _get_id(reader: Reader) -> tuple[int, int]:
    return U32.get(reader), U64.get(reader)
