"""A sample of each Python target of `make fuzz`, and what they have found."""

import asyncio
import time
from pathlib import Path

import pytest
from hardening.fuzz import links, sockets
from hardening.fuzz.codecs import CODECS, Codecs
from hardening.fuzz.configuration import Texts
from hardening.fuzz.segments import Files
from hardening.fuzz.selectors import Selectors

from tidings.broker.config.load import parse
from tidings.errors import CodecError, ConfigError
from tidings.routing.hermes.codec import decode_types
from tidings.routing.unicast.link_state import decode_links
from tidings.tracking.query import codec as tracing

SEED = 1
PATIENCE_SECONDS = 60.0  # how long a client may wait on a machine that is busy with other things


def test_any_text_is_a_configuration_or_an_error_with_its_place_and_remedy() -> None:
    texts = Texts()
    right = sum(texts.run(SEED, number) for number in range(500))
    assert 0 < right < 500, "some must be right, and some wrong"


def test_any_text_is_a_selector_on_which_all_agree_or_an_error_with_its_place() -> None:
    selectors = Selectors()
    read = sum(selectors.run(SEED, number) for number in range(2000))
    assert 0 < read == selectors.read < 2000, "some must be right, and some wrong"


def test_a_damaged_segment_is_refused(tmp_path: Path) -> None:
    files = Files(tmp_path)
    for number in range(1000):
        files.run(SEED, number)
    assert files.read > 0, "no input got beyond the checks: these find nothing"


def test_what_other_brokers_send_is_refused_or_written_back_the_same() -> None:
    codecs = Codecs()
    for number in range(400 * len(CODECS)):
        codecs.run(SEED, number)
    assert codecs.accepted > 0


def test_a_neighbour_that_lies_breaks_nobody() -> None:
    assert links.run(SEED) > 20


def test_streams_over_sockets_disturb_nobody() -> None:
    sent = asyncio.run(sockets.fuzz(300, SEED, 0, time.monotonic() + PATIENCE_SECONDS, PATIENCE_SECONDS))
    assert sent == 300


def test_a_number_of_thousands_of_digits_is_a_mistake_and_not_a_traceback() -> None:
    with pytest.raises(ConfigError, match="a number with too many digits is out of range; give"):
        parse("[[listeners]]\nport = 0x" + "f" * 6000, "a.toml")


@pytest.mark.parametrize(
    "data",
    [
        "01055472616465000101780111",  # bytes after the end
        "0105547261646500020178010178 01",  # an attribute twice
    ],
)
def test_types_have_one_form(data: str) -> None:
    with pytest.raises(CodecError):
        decode_types(bytes.fromhex(data))


def test_a_links_neighbours_ascend() -> None:
    with pytest.raises(CodecError, match="ascend"):
        decode_links(bytes.fromhex("02221e0401"))


def test_a_column_that_is_not_text_is_damage(tmp_path: Path) -> None:
    """Arrow tells that in another way than other damage."""
    files = Files(tmp_path)
    for number in (168, 987, 1397):
        files.run(2, number)
    assert files.read == 0


def test_an_answer_without_knowledge_names_nobody() -> None:
    with pytest.raises(CodecError, match="of which nothing is known"):
        tracing.decode(bytes.fromhex("02040300000000f5cc0000000000020204000001"))
