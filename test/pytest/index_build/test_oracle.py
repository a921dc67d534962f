"""The oracle itself: it sees every byte but LSN and checksum, and says where it saw it."""

import struct

import psycopg
import pytest
from extension.probes import Connection, need_extension

from index_build.pages import first_difference
from index_build.twins import Build, Failure, Twins, check_tree, complaint
from lookahead.experiments.built_index import blanked
from lookahead.experiments.conditions import BLOCK_BYTES

_TABLE = (
    "CREATE TABLE planted WITH (autovacuum_enabled = off) AS "
    "SELECT i AS k, 'x' || i % 7 AS c FROM generate_series(1, 3000) i"
)
_CREATE = "CREATE INDEX planted_k ON planted (k)"


@pytest.fixture
def image(connection: Connection, twins: Twins) -> bytes:
    """An index of stock's with a metapage, leaves and a root."""
    connection.execute(f"DROP TABLE IF EXISTS planted; {_TABLE}")
    found = twins.build("stock", _CREATE, "planted_k").image
    assert len(found) > 4 * BLOCK_BYTES
    return found


def _changed(image: bytes, block: int, offset: int) -> bytes:
    at = block * BLOCK_BYTES + offset
    return image[:at] + bytes([image[at] ^ 1]) + image[at + 1 :]


def _first_item(image: bytes, block: int) -> int:
    word = struct.unpack_from("<I", image, block * BLOCK_BYTES + 24)[0]
    return int(word & 0x7FFF)


@pytest.mark.parametrize(
    ("block", "offset", "place"),
    [
        (0, 24, "metapage"),
        (1, 12, "pd_lower"),
        (1, 23, "pd_prune_xid"),
        (1, 25, "line pointer 1"),
        (2, 1900, "free space"),
        (3, BLOCK_BYTES - 16, "internal page of level 1, root, btpo_prev"),
        (3, BLOCK_BYTES - 1, "btpo_cycleid"),
    ],
)
def test_planted_byte_is_found_and_named(image: bytes, block: int, offset: int, place: str) -> None:
    difference = first_difference(image, _changed(image, block, offset))
    assert difference is not None
    assert (difference.block, difference.offset) == (block, offset)
    assert place in difference.place
    assert difference.stock != difference.ours


def test_planted_byte_of_an_item_is_named(image: bytes) -> None:
    offset = _first_item(image, 1) + 3
    difference = first_difference(image, _changed(image, 1, offset))
    assert difference is not None
    assert "leaf page, byte 3 of item 1 (16 bytes)" in str(difference)


def test_missing_page_is_found(image: bytes) -> None:
    difference = first_difference(image, image[:-BLOCK_BYTES])
    assert difference is not None
    assert str(difference).startswith("length (pages)")


def test_lsn_and_checksum_are_no_difference(image: bytes) -> None:
    other = bytearray(image)
    other[BLOCK_BYTES : BLOCK_BYTES + 10] = b"0123456789"
    assert first_difference(image, blanked(bytes(other))) is None


def test_other_row_order_is_a_difference(connection: Connection, twins: Twins) -> None:
    """The same values in another place of the heap: other TIDs, so other pages."""
    builds = []
    for order in ("ASC", "DESC"):
        connection.execute(
            "DROP TABLE IF EXISTS planted; CREATE TABLE planted AS "
            f"SELECT i AS k FROM generate_series(1, 3000) i ORDER BY k {order}"
        )
        builds.append(twins.build("stock", _CREATE, "planted_k"))
    assert complaint(*builds).startswith("pages differ at block 1, byte ")
    assert complaint(builds[0], builds[0]) == ""


def test_other_catalog_entry_is_a_difference(image: bytes) -> None:
    left, right = Build(image, (True, 2, 3.0)), Build(image, (False, 2, 3.0))
    assert complaint(left, right).startswith("catalogs differ")


_DUPLICATE = Failure("23505", "could not create u", "Key (k)=(1) is duplicated.", ("public",))


@pytest.mark.parametrize(
    ("ours", "same"),
    [
        (_DUPLICATE, True),
        (Failure("23505", "could not create u", "Key (k)=(2) is duplicated.", ("public",)), True),
        (Failure("23505", "could not create u", "Key (c)=(1) is duplicated.", ("public",)), False),
        (Failure("23505", "could not create u", "", ("public",)), False),
        (Failure("23505", "could not build u", _DUPLICATE.detail, ("public",)), False),
        (Failure("23505", "could not create u", _DUPLICATE.detail, (None,)), False),
        (Failure("22012", "could not create u", _DUPLICATE.detail, ("public",)), False),
        (None, False),
    ],
)
def test_errors_are_compared(ours: Failure | None, same: bool) -> None:
    assert (complaint(Build(failure=_DUPLICATE), Build(failure=ours)) == "") == same


def test_amcheck_finds_what_it_should(connection: Connection) -> None:
    """An index whose operator class has changed its mind since is damaged."""
    need_extension(connection, "amcheck")
    connection.execute(
        "CREATE FUNCTION way() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1'; "
        "CREATE FUNCTION fickle(int, int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
        "'BEGIN RETURN public.way() * btint4cmp($1, $2); END'; "
        "CREATE OPERATOR CLASS fickle_ops FOR TYPE int USING btree AS "
        "OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, "
        "FUNCTION 1 fickle(int, int); "
        f"DROP TABLE IF EXISTS planted; {_TABLE}; "
        "CREATE INDEX planted_k ON planted (k fickle_ops)"
    )
    check_tree(connection, "planted_k")
    connection.execute(
        "CREATE OR REPLACE FUNCTION way() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT -1'"
    )
    with pytest.raises(psycopg.errors.IndexCorrupted):
        check_tree(connection, "planted_k")
