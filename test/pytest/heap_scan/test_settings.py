"""Settings that must not stop look-ahead, or must: concurrency, switches, the self-check."""

from collections.abc import Iterator

import pytest
from extension.probes import Connection, explain, scalar

from heap_scan.probes import (
    BITMAP_SCANS,
    FORCED,
    SEQ_SCANS,
    make_cold,
    make_pages,
    only_scan,
    scans,
)

_PAGES = 600
_BITMAP = "SELECT k, pad FROM g WHERE r < 300"
_TABLE = "SELECT k, pad FROM g"


@pytest.fixture(autouse=True)
def _table(connection: Connection) -> None:
    if scalar(connection, "SELECT to_regclass('g') IS NULL"):
        make_pages(connection, "g", _PAGES)


@pytest.fixture
def tablespace(connection: Connection) -> Iterator[str]:
    """Gives the name of the table's tablespace, and takes its options away afterwards."""
    yield "pg_default"
    connection.execute(
        "ALTER TABLESPACE pg_default RESET "
        "(effective_io_concurrency, maintenance_io_concurrency, random_page_cost, seq_page_cost)"
    )


@pytest.mark.parametrize("concurrency", [0, 1, 16, 1000])
def test_effective_io_concurrency_stops_no_bitmap_scan(
    connection: Connection, concurrency: int
) -> None:
    connection.execute(f"{BITMAP_SCANS}; SET effective_io_concurrency = {concurrency}")
    make_cold(connection, "g")
    scan = only_scan(connection, _BITMAP)
    assert scan["Advised Blocks"] > 200
    assert scan["Max Distance"] == max(scan["Max Distance"], 32)


@pytest.mark.parametrize("concurrency", [0, 1, 500])
def test_options_of_a_tablespace_stop_none(
    connection: Connection, tablespace: str, concurrency: int
) -> None:
    connection.execute(
        f"ALTER TABLESPACE {tablespace} SET (effective_io_concurrency = {concurrency}, "
        f"maintenance_io_concurrency = {concurrency})"
    )
    connection.execute(BITMAP_SCANS)
    make_cold(connection, "g")
    assert only_scan(connection, _BITMAP)["Advised Blocks"] > 200
    make_cold(connection, "g")
    assert len(connection.execute(_BITMAP).fetchall()) == 300


@pytest.mark.parametrize(
    ("switch", "left"),
    [
        ("enable_bitmap_prefetch = off", {_BITMAP}),
        ("enable_seq_prefetch = off", {_TABLE}),
        ("enable_index_prefetch = off", set()),
        ("bulk_read_size = 0", {_TABLE}),
        ("enabled = off", {_BITMAP, _TABLE}),
    ],
)
def test_each_switch_stops_its_own_scans(
    connection: Connection, switch: str, left: set[str]
) -> None:
    connection.execute(f"SET pg_lookahead.{switch}")
    found = set()
    for settings, sql in ((BITMAP_SCANS, _BITMAP), (SEQ_SCANS, _TABLE)):
        connection.execute(f"RESET enable_seqscan; RESET enable_bitmapscan; {settings}")
        scan = only_scan(connection, sql)
        if scan["Status"] == "stock":
            assert scan["Reason"] == ("bulk_read_size is 0" if "bulk" in switch else "disabled")
            found.add(sql)
    assert found == left


@pytest.mark.expects_in_log("leaves table scans of this session to core")
@pytest.mark.parametrize(
    ("settings", "sql"),
    [(BITMAP_SCANS, _BITMAP), (SEQ_SCANS, _TABLE)],
    ids=["bitmap", "seq"],
)
def test_failed_self_check_leaves_a_session_to_core(
    connection: Connection, settings: str, sql: str
) -> None:
    connection.execute(f"{settings}; {FORCED}")
    expected = connection.execute(sql).fetchall()
    connection.execute("SET pg_lookahead.test_fail_self_check = on")
    assert connection.execute(sql).fetchall() == expected
    connection.execute("RESET pg_lookahead.test_fail_self_check")
    # Once distrusted, always distrusted: all of these scans, and no others.
    for _ in range(2):
        assert connection.execute(sql).fetchall() == expected
        assert only_scan(connection, sql)["Reason"] == "self-check"
    feature = "seq_scan" if sql == _TABLE else "bitmap_scan"
    counted = scalar(
        connection,
        "SELECT (fallbacks ->> 'self-check')::int FROM pg_stat_lookahead "
        f"WHERE feature = '{feature}'",
    )
    assert counted >= 4
    connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
    connection.execute("SET enable_indexscan = on")
    plan = explain(connection, "SELECT pad FROM g WHERE r < 100")
    assert plan["Lookahead"]["Status"] == "prefetch"
    assert scans(plan) == []


@pytest.mark.expects_in_log("leaves table scans of this session to core")
def test_scan_in_which_the_check_fails_is_explained(connection: Connection) -> None:
    connection.execute(f"{BITMAP_SCANS}; {FORCED}; SET pg_lookahead.test_fail_self_check = on")
    scan = only_scan(connection, _BITMAP)
    assert (scan["Status"], scan["Reason"]) == ("stock", "self-check")
