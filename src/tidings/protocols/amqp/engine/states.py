"""Delivery states (specification, parts 3.4 and 4.5), by number or by symbol.

>>> state_of(Described(symbol("amqp:modified:list"), [True])), state_of(None).code
(DeliveryState(code=<StateCode.MODIFIED: 39>, fields=[True]), <StateCode.NONE: 0>)
"""

from enum import IntEnum
from typing import NamedTuple

from tidings.protocols.amqp.wire.types import AmqpValue, Described, symbol, ulong


class StateCode(IntEnum):
    NONE = 0  # no state, or one of no known kind
    RECEIVED = 0x23
    ACCEPTED = 0x24
    REJECTED = 0x25
    RELEASED = 0x26
    MODIFIED = 0x27
    DECLARED = 0x33
    TRANSACTIONAL = 0x34


class DeliveryState(NamedTuple):
    code: StateCode
    fields: list[AmqpValue]

    def field(self, index: int) -> AmqpValue:
        return self.fields[index] if index < len(self.fields) else None


_SYMBOLS = {f"amqp:{one.name.lower()}:list": one for one in StateCode if one < StateCode.DECLARED and one}
_SYMBOLS |= {"amqp:declared:list": StateCode.DECLARED, "amqp:transactional-state:list": StateCode.TRANSACTIONAL}
_NUMBERS = {int(one): one for one in StateCode if one}
ACCEPTED = Described(ulong(StateCode.ACCEPTED), [])


def state_of(value: AmqpValue) -> DeliveryState:
    if not isinstance(value, Described) or not isinstance(value.value, list):
        return DeliveryState(StateCode.NONE, [])
    known: dict[AmqpValue, StateCode] = _SYMBOLS if isinstance(value.descriptor, symbol) else _NUMBERS
    try:
        return DeliveryState(known.get(value.descriptor, StateCode.NONE), value.value)
    except TypeError:  # a descriptor that cannot be hashed
        return DeliveryState(StateCode.NONE, [])


def written(code: StateCode, *fields: AmqpValue) -> Described:
    return Described(ulong(code), list(fields))
