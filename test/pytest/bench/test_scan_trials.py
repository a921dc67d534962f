"""The bench's experiments of scans: what they declare, their arms and questions; no server."""

import os
from pathlib import Path
from typing import Any

import pytest
from lab.declarations import check_declaration
from mounting import mounted

from bench.small_bench import PG_CONFIG, run_bench
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments.experiment import Experiment
from lookahead.experiments.trials import Statement
from lookahead.measurements import Factor
from lookahead_bench import (
    bulk_insert,
    cached_scan,
    concurrent_scans,
    create_partitions,
    extend,
    index_build,
    index_only_scan,
    joins,
    needed_partitions,
    page_layouts,
    partitions,
    range_query,
    select_partitions,
    seq_parts,
    seq_scan,
)
from lookahead_bench.range_query import fill_lineitem
from lookahead_bench.range_query import range_query as range_statement
from lookahead_bench.seq_parts import knee_of, parse_log, read_directly
from lookahead_bench.trials import Trial


def _questions(trial: Trial) -> list[str]:
    return [question.name for question in trial.questions]


def test_cached_trial_compares_each_setting_with_itself() -> None:
    trial = cached_scan.cached_trial(4, "64kB")
    assert [one.name for one in trial.questions] == [
        *("setting 0", "stock's default", "setting 1000", "not loaded")
    ]
    pairs = [(one.baselines, one.challengers) for one in trial.questions]
    assert pairs == [
        (("bitmap, 0",), ("ours, 0",)),
        (("bitmap, default",), ("ours",)),
        (("bitmap, 1000",), ("ours, 1000",)),
        (("not loaded",), ("ours",)),
    ]
    assert not trial.cold
    assert {arm.settings["max_parallel_workers_per_gather"] for arm in trial.arms} == {"4"}


def test_cold_parallel_trial() -> None:
    trial = cached_scan.cold_trial(2, 3, 500)
    assert trial.cold
    assert (trial.rows, trial.pages) == (500, 500)
    assert _questions(trial) == ["stock's default"]
    assert trial.statement.startswith("SELECT count(pad)")


def test_join_trial() -> None:
    hot = joins.trial_of("ten-rows", "index hot", 300, "worker")
    assert [arm.name for arm in hot.arms] == ["stock", "ours"]
    assert hot.arms[1].settings["pg_lookahead.enable_join_prefetch"] == "on"
    assert (hot.prefetched, hot.cold, hot.executions) == (3000, True, 1)
    cached = joins.trial_of("key", "cached", 300, "worker")
    assert (cached.prefetched, cached.cold, cached.executions) == (0, False, 4)
    assert joins.trial_of("left", "index cold", 300, "worker").prefetched == 0
    parts = joins.trial_of(joins.PARTITIONS, "index hot", 300, "worker")
    assert f"JOIN {joins.PARTED} i" in parts.statement
    assert parts.prefetched == 300


def test_joins_with_partitions_have_a_second_table() -> None:
    whole = joins.EXPERIMENT.wanted("quick", {})
    plain = joins.EXPERIMENT.wanted("quick", {"shape": ("key",)})
    assert joins.PARTITIONS in whole.shape
    assert joins.join_space(whole) == 2 * joins.join_space(plain)


def test_index_only_trial() -> None:
    """Of the fewest hidden pages of a round all but the first ones of two leaves are asked for."""
    rounds = tuple(
        Statement("SELECT", {"first_key": 500, "last_key": 799, "hidden_pages": hidden})
        for hidden in (37, 31)
    )
    trial = index_only_scan.trial_of(10, rounds, "sync", Factor("read-ahead", "128 kB"))
    assert [arm.plan for arm in trial.arms] == ["Index Only Scan"] * 2
    assert [arm.library for arm in trial.arms] == ["off", "on"]
    assert (trial.rows, trial.prefetched) == (300, 29)
    assert trial.compared == ("stock", "ours")


def test_range_query_trial() -> None:
    trial = range_query.trial_of("year", 1.0, "worker")
    assert _questions(trial) == ["setting 1", "stock's default", "best stock plan"]
    assert "interval '1 year'" in range_statement("year")
    assert "generate_series(1, 1500)" in fill_lineitem(1500, 1)


def test_layouts_of_pages() -> None:
    uniform, clustered, periodic = (
        page_layouts.LaidOut(0, 0.5, layout).chosen(1) for layout in page_layouts.LAYOUTS
    )
    assert uniform.startswith("(hashint8extended(page, 107)")
    assert clustered == uniform.replace("page", "page / 128")
    assert periodic.startswith("(page + 1)::bigint * 500000 / 1000000 > page::bigint")
    trial = page_layouts.trial_of(page_layouts.LaidOut(7, 0.5, "periodic"), "sync", 500)
    assert trial.statement_of(trial.arms[0]).endswith("WHERE c1 + 0 = 7")
    assert trial.statement_of(trial.arms[1]).endswith("WHERE c1 = 7")
    assert _questions(trial) == ["stock's default", "index, random order"]


def test_concurrent_trial() -> None:
    trial = concurrent_scans.trial_of(16, "sync", (4, 64))
    assert [arm.name for arm in trial.arms] == [
        *("bitmap, 4", "bitmap, 64", "bitmap, default"),
        *("ours", "ours, distance 4", "ours, distance 64"),
    ]
    assert _questions(trial) == ["stock's default", "best of stock"]


def test_scan_trial_has_the_scan_in_memory_beside_it() -> None:
    trial = seq_parts.scan_trial(100, 3000 * 1024, seq_parts.ScanLimits((), 2500.0, 2600.0))
    assert trial.references == {"seq, in memory": 2600.0}


def test_device_is_measured_beside_a_scan_where_it_can_be() -> None:
    fast, slow = (seq_parts.ScanLimits((), ms, 2600.0) for ms in (2500.0, 2700.0))
    assert [limits.is_device for limits in (fast, slow)] == [False, True]
    known = seq_parts.scan_trial(128, 3000 * 1024, fast)
    assert "device alone" in [arm.name for arm in known.arms]
    silent = seq_parts.scan_trial(128, 3000 * 1024, seq_parts.ScanLimits((), None, 2600.0))
    assert "device alone" not in [arm.name for arm in silent.arms]


def test_copies() -> None:
    known = seq_parts.scan_trial(128, 3000 * 1024, seq_parts.ScanLimits((), None, 1.0))
    copies = {arm.name: known.statement_of(arm) for arm in known.arms if not arm.plan}
    assert copies["COPY table"] == "COPY lookahead_wide TO STDOUT"
    assert copies["COPY query, stock"] == copies["COPY query, ours"]


def test_bulk_and_vacuum_trials() -> None:
    bulk = seq_parts.bulk_trial(20, ("0", "16kB"))
    assert [arm.name for arm in bulk.arms] == ["seq", "ours", "ours, 0", "ours, 16kB"]
    assert _questions(bulk) == ["stock's scan"] * 3
    assert [one.challengers for one in bulk.questions[1:]] == [("ours, 0",), ("ours, 16kB",)]
    vacuum = seq_parts.vacuum_trial(20, "1MB", (0, 16))
    assert vacuum.questions == ()
    assert [arm.settings["maintenance_io_concurrency"] for arm in vacuum.arms] == ["0", "16"]
    assert vacuum.server == {"io_max_combine_limit": "1MB"}


def test_knee_is_the_least_value_that_is_good_enough() -> None:
    times = [(128.0, 26.0), (1024.0, 20.0), (4096.0, 18.0), (8192.0, 17.5), (163840.0, 24.0)]
    assert knee_of(times) == 4096.0
    assert knee_of([(8.0, 5.0)]) == 8.0
    with pytest.raises(ValueError, match="needs points"):
        knee_of([])


def test_log_of_pgbench() -> None:
    assert parse_log("0 1 1500 0 1700000000 12\n3 2 250 0 1700000000 99\n") == [1.5, 0.25]
    assert parse_log("") == []
    for text in ("0 1\n", "0 1 failed 0 1700000000 12\n"):
        with pytest.raises(LabError, match="another shape"):
            parse_log(text)


def test_a_disk_of_its_own_has_read_aheads_of_its_own() -> None:
    experiment = seq_scan.EXPERIMENT
    assert experiment.wanted("demo", {}).read_ahead == ()
    assert experiment.wanted("demo", {"own_disk": True}).read_ahead == (128, 8192)
    given = {"own_disk": True, "read_ahead": (256,)}
    assert experiment.wanted("demo", given).read_ahead == (256,)


def test_only_a_disk_of_its_own_is_changed() -> None:
    for name, value in (("latency", 1000), ("read_ahead", (128,))):
        with pytest.raises(LabError, match="makes no difference without --own-disk"):
            seq_scan.EXPERIMENT.wanted("demo", {name: value})


def test_parts_without_read_ahead_record_none() -> None:
    given = {"own_disk": True, "part": ("vacuum",)}
    assert seq_scan.EXPERIMENT.wanted("demo", given).read_ahead == ()


@pytest.mark.parametrize(
    "experiment",
    [
        one.EXPERIMENT
        for one in (
            *(bulk_insert, cached_scan, concurrent_scans, create_partitions, extend),
            *(index_build, index_only_scan, joins, needed_partitions, page_layouts, partitions),
            *(range_query, select_partitions, seq_scan),
        )
    ],
    ids=lambda one: one.name,
)
def test_declarations(experiment: Experiment[Any], capsys: pytest.CaptureFixture[str]) -> None:
    check_declaration(experiment)
    assert run_bench("run", experiment.name, "--help").status is ExitStatus.SUCCESS
    golden = Path(__file__).parent / "golden" / f"help-run-{experiment.name}.txt"
    assert capsys.readouterr().out == golden.read_text()


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ("seq-scan --part bulk-read,vacuum --read-ahead 128kB", "--read-ahead"),
        ("seq-scan --part vacuum --table-size 10MB", "--table-size"),
        ("seq-scan --part scan --seconds 2", "--seconds"),
        ("seq-scan --part scan,lookups --scale 2", "--scale"),
        ("cached-scan --data cold --work-mem 4MB", "--work-mem"),
        ("bulk-insert --parts flat --columns 8", "--columns"),
        ("bulk-insert --parts flat,columns --sessions 8", "--sessions"),
        ("bulk-insert --parts small --table-size 8MB", "--table-size"),
        ("partitions --parts insert --clients 1", "--clients"),
        ("partitions --parts copy --seconds 1", "--seconds"),
        ("partitions --parts single-row --table-size 8MB", "--table-size"),
        ("extend --sessions none --table-size 8MB --scale 1", "--table-size"),
    ],
)
def test_options_that_make_no_difference_are_refused(words: str, refused: str) -> None:
    outcome = run_bench("run", *words.split(), "--demo")
    assert outcome.status is ExitStatus.USAGE
    assert outcome.stderr.startswith(f"error: {refused} makes no difference without --")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("extend --demo --sessions none", "nothing is to be measured"),
        ("range-query --scale 0", "'0' is not a number above 0 and up to 100"),
    ],
)
def test_wrong_usage(words: str, message: str) -> None:
    outcome = run_bench("run", *words.split())
    assert outcome.status is ExitStatus.USAGE
    assert message in outcome.stderr


@pytest.mark.parametrize("options", [(), ("--own-disk", "--part", "scan", "--table-size", "1MB")])
def test_refuses_a_place_in_memory(tmp_path: Path, disk: Path, options: tuple[str, ...]) -> None:
    output = tmp_path / "results"
    with mounted(disk / "memory", "size=2g") as place:
        where = ("--directory", place, "--output", output, *PG_CONFIG)
        outcome = run_bench("run", "seq-scan", "--demo", *options, *where)
        assert list(place.iterdir()) == []
    assert outcome.status is ExitStatus.ENVIRONMENT
    told = "tmpfs is in memory" if options else "is in memory (tmpfs)"
    assert told in outcome.stderr


def test_reading_directly(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(3 * 2**20 + 8192))
    try:
        assert read_directly([path]) > 0
    except LabError as error:  # a file system without direct I/O
        pytest.skip(error.message)
    path.unlink()
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError):
        read_directly([missing])
