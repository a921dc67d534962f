"""The experiment "partitions": layouts, cases; on a server but once."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from bench import small_bench
from bench.small_bench import PG_CONFIG, run_bench
from lookahead.errors import ExitStatus
from lookahead.results import read_result
from lookahead_bench import partitions
from lookahead_bench.partitions import FLAT, Layout, cases_for

_WANTED = small_bench.PARTITIONS


def test_ranges_share_out_all_integers() -> None:
    _, _, leaves = Layout("range", 3).make()
    ranges = [leaf.split(" FROM ")[1] for leaf in leaves.split(";")]
    assert ranges == [
        "(MINVALUE) TO (-715827883)",
        "(-715827883) TO (715827882)",
        "(715827882) TO (MAXVALUE)",
    ]


def test_lists_have_a_leaf_for_each_remainder() -> None:
    _, parent, leaves = Layout("list", 128).make(unlogged=True)
    assert parent.endswith("PARTITION BY list (((hashtext(pad) & 2147483647) % 128))")
    assert leaves.count("CREATE UNLOGGED TABLE") == 128
    assert leaves.endswith("IN (127)")
    assert parent.startswith("CREATE TABLE")  # only leaves can be unlogged


def test_a_layout_is_made_once_for_all_its_cases() -> None:
    cases = cases_for(_WANTED, Path("/a/b'c"))
    labels = [(case.scenario.value("target"), case.scenario.value("logging")) for case in cases]
    changes = [one != other for one, other in pairwise(labels)]
    assert changes.count(True) == len(set(labels)) - 1 == 5
    made = [case for case in cases if any("PARTITION OF" in sql for sql in case.first)]
    assert len(made) == 4
    assert {case.scenario.value("statement") for case in made} == {"INSERT ... SELECT"}
    dropped = [case.after.startswith("DROP") for case in cases]
    assert dropped == [False, True, True, False, True, False, True] * 2


def test_partitions_alternate_with_a_flat_table() -> None:
    cases = cases_for(replace(_WANTED, parts=("copy",)), Path("/a/b'c"))
    case = next(case for case in cases if case.scenario.value("target") == "3 list partitions")
    assert [case.statement_of(arm) for arm in case.arms] == [
        "COPY lookahead_target FROM 'b''c'",
        "COPY lookahead_target FROM 'b''c'",
        f"COPY {FLAT} FROM 'b''c'",
        f"COPY {FLAT} FROM 'b''c'",
    ]
    assert case.first[-1] == "COPY lookahead_rows TO '/a/b''c'"
    assert [(one.baselines, one.challengers) for one in case.questions] == [
        (("stock",), ("ours",)),
        (("stock, flat",), ("stock",)),
        (("ours, flat",), ("ours",)),
    ]


def test_locks_of_all_leaves_have_room() -> None:
    settings = partitions.EXPERIMENT.settings
    assert settings(_WANTED)["max_locks_per_transaction"] == "64"
    many = settings(replace(_WANTED, leaves=(128, 10_000)))
    assert int(many["max_locks_per_transaction"]) * 100 > 10_000


@pytest.mark.end_to_end
def test_whole_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(partitions.EXPERIMENT.sizes, "demo", _WANTED)
    outcome = run_bench("run", "partitions", "--demo", "--output", tmp_path, *PG_CONFIG)
    assert outcome.status is ExitStatus.SUCCESS, outcome.stderr
    (path,) = tmp_path.glob("*.json")
    found = read_result(path)
    data = found.measurements
    assert found.status == "complete"
    statements = {one.scenario.value("statement") for one in data.samples}
    assert statements == {"INSERT ... SELECT", "COPY", "CREATE TABLE AS", "single row"}
    many = [one for one in data.samples if one.scenario.value("clients") is None]
    assert {one.counts["inserted_rows"] for one in many} == {128 * 107}
    # Those of the leaves: a partitioned table has none itself.
    assert min(one.counts["table_bytes"] for one in many) > 1_000_000
    assert len(data.checks) == len({one.scenario for one in many})
    assert len(data.samples) - len(many) == 2 + 3 + 3
    shown = data.statements["2, 3 list partitions, single row"].splitlines()
    assert shown[0] == "INSERT INTO lookahead_target VALUES (1, :key, md5((:key)::text))"
    assert "-- full_page_writes = off" in shown
    assert any(line.startswith("-- Insert on lookahead_target ") for line in shown)
    assert shown[-1].startswith("-- Execution Time: ")
