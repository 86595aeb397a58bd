"""Layout of filters in a segment: groups of rows, of which a query reads one to get at one filter.

A filter that several histories have in common is written once for those in the same group. Full Bloom filters are as
good as random, so a segment in which most filters are full is kept as it is; what stands beside such filters is not
worth the time.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tidings.extras import lazy

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pa, pc, pq = lazy("pyarrow"), lazy("pyarrow.compute"), lazy("pyarrow.parquet")


ROWS_MAX, BYTES_MAX = 256, 1 << 20  # of a group; one filter may have more
PROBE_BYTES = 256
_ALIKE = ("broker", "incarnation", "kind", "origin", "peer", "encoding", "count", "full", "opened_ms", "stored_ms")


def write_filters(rows: "pa.Table", data: Sequence[bytes], sink: "pa.NativeFile") -> None:
    """Histories without their column `data`, and that column: what several have in common is one object in it."""
    full = pc.sum(pc.and_(rows["full"], pc.is_in(rows["encoding"], pa.array(["bloom", "lines"])))).as_py()
    schema = rows.schema.append(pa.field("data", pa.dictionary(pa.int32(), pa.binary()), nullable=False))
    with pq.ParquetWriter(
        sink,
        schema,
        compression="none" if 2 * full > rows.num_rows else "zstd",
        use_dictionary=[*_ALIKE, "data"],
        write_statistics=[*_ALIKE, "sequence", "first_ms", "last_ms"],
        write_page_checksum=True,
        store_schema=False,  # to readers it is a column of bytes
    ) as writer:
        writer.add_key_value_metadata(rows.schema.metadata)
        for group in groups(data):
            part = rows.slice(group.start, len(group)).append_column(
                schema.field("data"), _shared(data[group.start : group.stop])
            )
            writer.write_table(part)


def groups(data: Sequence[bytes]) -> Iterator[range]:
    """The rows of each group."""
    start, size, seen = 0, 0, set[int]()
    for row, one in enumerate(data):
        more = 0 if id(one) in seen else len(one)
        if row - start == ROWS_MAX or (size and size + more > BYTES_MAX):
            yield range(start, row)
            start, size, more = row, 0, len(one)
            seen.clear()
        size += more
        seen.add(id(one))
    yield range(start, len(data))


def _shared(data: Sequence[bytes]) -> "pa.DictionaryArray":
    """Equal ones must be one here: Arrow would write all of them again for each row."""
    objects = {id(one): one for one in data}
    alike: dict[bytes, list[bytes]] = {}  # by a part that hardly two of them have in common: a hash of all takes long
    places: dict[int, int] = {}
    distinct: list[bytes] = []
    for number, one in objects.items():
        others = alike.setdefault(one[:PROBE_BYTES], [])
        same = next((other for other in others if other == one), None)
        if same is None:
            others.append(one)
            distinct.append(one)
            places[number] = len(distinct) - 1
        else:
            places[number] = places[id(same)]
    indices = pa.array([places[id(one)] for one in data], pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(distinct, pa.binary()))
