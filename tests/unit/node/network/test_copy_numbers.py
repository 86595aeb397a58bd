"""Numbers of copies: items as bytes, and epochs of runs that begin with the same store and clock."""

from random import Random

import pytest

from tidings.errors import CodecError
from tidings.node.network.copy_numbers import CopyNumbers, decode_item, encode_item, new_epoch

MESSAGE = b"1\x002 and more"


@pytest.mark.parametrize("seed", range(20))
def test_items_are_read_as_they_were_written(seed: int) -> None:
    rng = Random(seed)
    by_router = {rng.getrandbits(32): rng.getrandbits(rng.randint(1, 64)) for _ in range(rng.randrange(5))}
    numbers = CopyNumbers(rng.getrandbits(32), rng.getrandbits(64), rng.random() < 0.5, by_router)
    blob = encode_item(MESSAGE, numbers)
    assert (decode_item(blob), blob[2]) == ((MESSAGE, numbers), MESSAGE[2])


def test_an_item_of_another_version_is_refused() -> None:
    with pytest.raises(CodecError, match="E_TRANSIT_VERSION"):
        decode_item(b"\x01\0\0\0\0")


def test_epochs_rise_with_incarnations_and_differ_for_the_same() -> None:
    incarnation = 1_700_000_000_000
    assert new_epoch(incarnation, Random(1)) < new_epoch(incarnation + 1, Random(2)) < 2**64
    assert new_epoch(incarnation, Random(1)) != new_epoch(incarnation, Random(2))
