"""The experiment "partitions": layouts, cases, what perf says; on a server but once."""

import os
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab import small_run
from lab.outcome import run_command
from lookahead.account import Account
from lookahead.errors import ExitStatus
from lookahead.experiments import insert_profile, partitions
from lookahead.experiments.bulk_insert_cases import OUR_ARM
from lookahead.experiments.insert_profile import shares_of
from lookahead.experiments.partitions import FLAT, Layout, cases_for
from lookahead.experiments.runner import Run
from lookahead.results import read_result

_PG_CONFIG = ("--pg-config", os.environ["PG_CONFIG"]) if "PG_CONFIG" in os.environ else ()
_WANTED = small_run.PARTITIONS
_REPORT = """
# Samples: 402  of event 'cpu-clock'
    99.50%     0.72%  [.] PostgresMain
    70.72%     0.43%  [k] do_syscall_64
     9.21%     1.00%  [.] standard_ExecutorStart
"""


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


def test_shares_are_those_with_all_that_is_called() -> None:
    assert shares_of(_REPORT) == {"PostgresMain": 99.5, "standard_ExecutorStart": 9.21}


def test_without_perf_there_is_no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it is not installed: what is said instead."""

    def absent(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", "perf")

    session = SimpleNamespace(info=SimpleNamespace(backend_pid=1), execute=absent)
    monkeypatch.setattr(insert_profile, "connect_arm", lambda *_: nullcontext(session))
    monkeypatch.setattr(insert_profile, "_SECONDS", 0)
    monkeypatch.setattr(Account, "run", absent)
    said: list[tuple[str, ...]] = []
    run = cast(Run, SimpleNamespace(server=None, find=lambda *words: said.append(words)))
    assert list(insert_profile.profiled(run, OUR_ARM, "INSERT", "flat table")) == []
    ((level, text, advice),) = said
    assert (level, text.split(": ", 1)[0]) == ("note", "inserts of single rows are not profiled")
    assert text.endswith("No such file or directory: 'perf'")
    assert advice.startswith("Install perf")


@pytest.mark.end_to_end
def test_whole_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a perf that always finds the same."""
    run = Account.run

    def made_perf(account: Account, command: Any, **more: Any) -> CompletedProcess[str]:
        if command[0] != "perf":
            return run(account, command, **more)
        tree = "# captured\n\n   100.00%  postgres\n            |\n            ---PostgresMain\n"
        return CompletedProcess(command, 0, _REPORT if "symbol" in command else tree, "")

    monkeypatch.setattr(Account, "run", made_perf)
    monkeypatch.setattr(insert_profile, "_SECONDS", 0.1)
    monkeypatch.setitem(partitions.EXPERIMENT.sizes, "demo", _WANTED)
    outcome = run_command("run", "article-3", "--demo", "--output", tmp_path, *_PG_CONFIG)
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
    told = [one.text for one in found.findings if "shares" in one.text]
    assert told[1] == (
        "single rows into 3 range partitions, shares of the backend's samples: routing 0.0 %, "
        "locks 0.0 %, executor start 9.2 %"
    )
    shown = data.statements["2, 3 list partitions, single row"].splitlines()
    assert shown[0] == "INSERT INTO lookahead_target VALUES (1, :key, md5((:key)::text))"
    assert "-- full_page_writes = off" in shown
    assert any(line.startswith("-- Insert on lookahead_target ") for line in shown)
    assert shown[-2:] == ["--    100.00%  postgres", "--             ---PostgresMain"]
