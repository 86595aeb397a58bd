"""Any bytes into the decoders of what other brokers send: they refuse them, with the place, or give what is written
back byte for byte. A decoder that took more than its encoder writes would let one message have two forms."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from hardening.fuzz.mutate import mutated
from hardening.fuzz.traffic import heard
from tidings.errors import CodecError
from tidings.routing.bdrp.advertisement import decode_change, encode_change
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.control import codec as control
from tidings.routing.control import pan_codec as pan
from tidings.routing.covering import codec as covering
from tidings.routing.hermes import codec as hermes
from tidings.routing.unicast.link_state import decode_links, encode_links
from tidings.tracking.query import codec as tracing

VECTOR_BYTES = InterestEncoding().row_bytes


@dataclass(frozen=True, slots=True)
class Codec:
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    heard: str  # by which name `traffic` knows its inputs


CODECS = {
    "control": Codec(control.decode, control.encode, "control"),
    "covering": Codec(covering.decode, covering.encode, "covering"),
    "hermes": Codec(hermes.decode, hermes.encode, "hermes"),
    "types": Codec(hermes.decode_types, hermes.encode_types, "types"),
    "requests": Codec(hermes.decode_request, hermes.encode, "requests"),
    "answers": Codec(hermes.decode_answer, hermes.encode, "answers"),
    "pan": Codec(pan.decode, pan.encode, "pan"),
    "tracing": Codec(tracing.decode, tracing.encode, "tracing"),
    "links": Codec(decode_links, encode_links, "links"),
    "vectors": Codec(
        lambda data: decode_change(data, VECTOR_BYTES), lambda made: encode_change(made, VECTOR_BYTES), "interests"
    ),
    "elements": Codec(lambda data: decode_change(data, 0), lambda made: encode_change(made, 0), "interests"),
}


class Codecs:
    """One input after the other, each for the next codec."""

    def __init__(self, samples: Mapping[str, list[bytes]] | None = None) -> None:
        self.samples = heard() if samples is None else samples
        self.accepted = 0
        self._everything = [one for some in self.samples.values() for one in some]

    def run(self, seed: int, number: int) -> None:
        rng = Random(f"{seed}.{number}")
        name = list(CODECS)[number % len(CODECS)]
        codec = CODECS[name]
        data = mutated(rng, rng.choice(self.samples[codec.heard]), self._everything)
        try:
            made = codec.decode(data)
        except CodecError as error:
            if not 0 <= (error.position or 0) <= len(data):
                raise AssertionError(f"{name}: {error} of {data.hex()}") from error
            return
        self.accepted += 1
        again = codec.encode(made)
        assert again == data, f"{name}: {data.hex()} is read as {made}, which is written as {again.hex()}"
