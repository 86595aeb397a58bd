"""Copies of segments at a URI."""

from pathlib import Path

import pytest

from tidings.errors import StoreError, UsageError
from tidings.model.tables import ATTACHMENTS, HISTORIES
from tidings.segments import run_markers
from tidings.segments.copies import SegmentCopies
from tidings.segments.reader import read_rows, segments
from tidings.segments.retention import mark, since_ms
from tidings.segments.writer import SegmentWriter
from tidings.tracking.recording.attachments import Attachment, AttachmentKind

ROW = {"broker": 3, "incarnation": 1, "kind": "era", "peer": "", "ms": 1000, "attached": True}
ERA = Attachment(AttachmentKind.ERA, "runs", 1000, attached=True, incarnation=1)


def copies(tmp_path: Path, name: str) -> SegmentCopies:
    return SegmentCopies(tmp_path / name, (tmp_path / "shared").as_uri(), 3)


def test_what_a_machine_has_copied_another_takes(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    writer, other = SegmentWriter(one, ATTACHMENTS, "b3"), SegmentWriter(one, ATTACHMENTS, "b4")
    first = writer.append([ROW], 1000)
    writer.append([ROW], 2000)
    other.append([ROW | {"broker": 4}], 1500)
    (one / HISTORIES.name).mkdir()
    mark(one, HISTORIES, "b3", 700)
    run_markers.sign(one, 3, ERA)
    here = copies(tmp_path, "one")
    assert here.push() == 4
    assert here.push() == 0, "only what is new"
    there = copies(tmp_path, "two")
    assert there.fetch() == 3
    assert [one.name.created_ms for one in segments(two, ATTACHMENTS)] == [1000, 2000], "not the other broker's"
    assert list(read_rows(two, ATTACHMENTS)) == [ROW, ROW]
    assert since_ms(two, HISTORIES) == 700
    assert run_markers.signed(two, 3) == [ERA]
    assert there.fetch() == 0
    first.unlink()
    run_markers.unsign(one, 3, [ERA])
    mark(one, HISTORIES, "b3", 1001)
    assert here.push() == 3
    assert copies(tmp_path, "three").fetch() == 1, "what was deleted is gone"
    assert since_ms(tmp_path / "three", HISTORIES) == 1001
    SegmentWriter(two, ATTACHMENTS, "b3").append([ROW], 3000)
    there.push()
    assert here.fetch() == 3, "and back, with what only the other one still has"


def test_half_a_copy_is_not_taken(tmp_path: Path) -> None:
    path = SegmentWriter(tmp_path / "one", ATTACHMENTS, "b3").append([ROW], 1000)
    copies(tmp_path, "one").push()
    copy = tmp_path / "shared" / ATTACHMENTS.name / path.name
    copy.write_bytes(copy.read_bytes()[:-1])
    assert copies(tmp_path, "two").fetch() == 0


def test_a_place_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        SegmentCopies(tmp_path, "nosuch://bucket/x", 3)
    assert caught.value.code == "E_TRACKING_COPIES"
    (tmp_path / "shared").write_text("no folder")
    SegmentWriter(tmp_path / "one", ATTACHMENTS, "b3").append([ROW], 1000)
    with pytest.raises(StoreError, match="shared"):
        copies(tmp_path, "one").push()
    with pytest.raises(StoreError, match="shared"):
        copies(tmp_path, "one").fetch()
