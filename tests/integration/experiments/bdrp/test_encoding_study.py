import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidings.cli import make_app
from tidings.errors import UsageError
from tidings.experiments.bdrp.encoding_study import Candidate, propose, study
from tidings.experiments.bdrp.paper_workload import PaperWorkload


def test_graded_encoding_finds_hardly_more_than_the_exact_number_of_routers() -> None:
    """The specification's table: 100 routers × 100 conjunctions, exact 17.3 %, plain 4.5 ×, graded at most 1.05 ×."""
    paper = PaperWorkload(7)
    predicates = [paper.predicate(100) for _ in range(100)]
    candidates = [Candidate("vectors", 256, 7), Candidate("graded", pieces_max=4)]
    found = study(predicates, [paper.message() for _ in range(400)], candidates)
    plain, graded = found.outcomes
    assert 0.15 < found.exact_share < 0.20
    assert (plain.missed, graded.missed) == (0, 0)
    assert 4.0 < plain.imprecision < 5.0
    assert 1.0 <= graded.imprecision <= 1.05
    assert propose(found) is graded
    assert propose(found, goal=9.0) is plain  # its advertisement is smaller


def test_the_command_reads_files_and_proposes(tmp_path: Path) -> None:
    filters, messages = tmp_path / "filters", tmp_path / "messages"
    filters.write_text("price > 90\n\nprice < 5\nname LIKE 'ab%'\n")
    messages.write_text("".join(json.dumps({"price": price, "name": "abc"}) + "\n" for price in range(100)))
    arguments = ["plan", "encoding", "--filters", str(filters), "--messages", str(messages), "--routers", "3"]
    done = CliRunner().invoke(make_app(["plan"]), [*arguments, "--json"])
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["routers"] == 3
    assert found["exact_share"] == pytest.approx((9 + 5 + 100) / 300)
    assert found["proposed"]["candidate"]["encoding"] == "graded"
    shown = CliRunner().invoke(make_app(["plan"]), arguments)
    assert '[network]\nencoding = "graded"' in shown.stdout


@pytest.mark.parametrize("text", ["{", "[]", '{"a": null}'])
def test_bad_messages_are_named(tmp_path: Path, text: str) -> None:
    filters, messages = tmp_path / "filters", tmp_path / "messages"
    filters.write_text("a = 1\n")
    messages.write_text('{"a": 1}\n' + text + "\n")
    done = CliRunner().invoke(
        make_app(["plan"]), ["plan", "encoding", "--filters", str(filters), "--messages", str(messages)]
    )
    assert isinstance(done.exception, UsageError)
    assert "messages:2: not" in str(done.exception)


def test_where_nothing_matches_there_is_no_ratio(tmp_path: Path) -> None:
    """Neither do JSON's numbers have one: 1 if nothing is sent either, otherwise null."""
    filters, messages = tmp_path / "filters", tmp_path / "messages"
    filters.write_text("price > 90\n")
    messages.write_text('{"price": 1}\n{"price": 89.9}\n')
    arguments = ["plan", "encoding", "--filters", str(filters), "--messages", str(messages)]
    done = CliRunner().invoke(make_app(["plan"]), [*arguments, "--json"])
    found = json.loads(done.stdout, parse_constant=pytest.fail)
    ratios = {(one["ratio"], one["share"] > 0) for one in found["outcomes"]}
    assert ratios <= {(1.0, False), (None, True)}
    assert (None, True) in ratios
    assert found["proposed"]["share"] == min(one["share"] for one in found["outcomes"])
    assert "–" in CliRunner().invoke(make_app(["plan"]), arguments).stdout


@pytest.mark.parametrize(
    ("filters", "messages"),
    [(b"\xff\xfe", b'{"a": 1}'), (b"a = 1", b"\xff\xfe"), (b"a = 1", b"[" * 200_000)],
)
def test_files_that_are_something_else(tmp_path: Path, filters: bytes, messages: bytes) -> None:
    (tmp_path / "filters").write_bytes(filters)
    (tmp_path / "messages").write_bytes(messages)
    arguments = ["plan", "encoding", "--filters", str(tmp_path / "filters"), "--messages", str(tmp_path / "messages")]
    done = CliRunner().invoke(make_app(["plan"]), arguments)
    assert isinstance(done.exception, UsageError)
    assert done.exception.code == "E_PLAN_ENCODING"


@pytest.mark.parametrize("wrong", ['{"a": NaN}', '{"a": 99999999999999999999}', '{"JMSType": "x"}', '{"": 1}'])
def test_a_message_that_is_none_is_told_by_its_line(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "filters").write_text("a = 1")
    (tmp_path / "messages").write_text('{"a": 1}\n\n' + wrong)
    arguments = ["plan", "encoding", "--filters", str(tmp_path / "filters"), "--messages", str(tmp_path / "messages")]
    done = CliRunner().invoke(make_app(["plan"]), arguments)
    assert isinstance(done.exception, UsageError)
    assert f"E_PLAN_ENCODING: {tmp_path / 'messages'}:3: E_" in str(done.exception)
