"""The table model: what is in the tables of a result, and as Markdown and CSV."""

import csv
import io
from dataclasses import replace
from typing import Any

import pytest

from lab.made_results import MACHINE
from lab.made_trials import FAST, OURS, STOCK, make_trial_sample, make_trial_scenario, make_trials
from lookahead.comparisons import compare
from lookahead.measurements import (
    Check,
    Factor,
    Measurements,
    Question,
    Scenario,
)
from lookahead.report.evidence_tables import evidence_tables, machine_line
from lookahead.report.result_tables import comparison_groups, render_tables
from lookahead.report.sentences import common_text, scenario_label, varying_names
from lookahead.report.tables import Table, columns_of, to_csv, to_markdown
from lookahead.results import ResultDocument

_HOSTILE = Table(
    "a|b",
    columns_of(("name",), ("number",)),
    (("<b>|*x*\n\x1b[2J", "1,5"), ('say "no"', "2")),
    "caption_",
)


@pytest.fixture
def made(document: ResultDocument) -> ResultDocument:
    return _measured(document, make_trials())


def _tables(document: ResultDocument) -> dict[str, Table]:
    return {one.title: one for one in (*render_tables(document), *evidence_tables(document))}


def _measured(document: ResultDocument, data: Measurements) -> ResultDocument:
    """A result with these samples and the answers that follow from them."""
    answered = replace(data, comparisons=compare(data, seed=7))
    return replace(document, experiment="bitmap-scan", measurements=answered)


def _with(document: ResultDocument, **changes: Any) -> ResultDocument:
    return _measured(document, replace(document.measurements, **changes))


def test_comparisons_say_everything(made: ResultDocument) -> None:
    table = _tables(made)["Comparisons of median times"]
    assert [column.name for column in table.columns] == [
        *(
            "scenario",
            "against",
            "baseline time",
            "our time",
            "ratio",
            "interval",
            "pairs",
            "verdict",
        ),
    ]
    assert table.rows == (
        *(
            (
                f"pages {share}",
                "stock's default",
                "425 ms",
                "212 ms",
                "2.00",
                "2.00 to 2.00",
                "6",
                "faster",
            )
            for share in ("10 %", "42 %")
        ),
        *(
            (
                *(f"pages {share}", f"best stock plan ({FAST})", "212 ms", "212 ms"),
                *("1.00", "1.00 to 1.00", "6", "no difference"),
            )
            for share in ("10 %", "42 %")
        ),
    )
    assert table.caption.endswith("Bootstrap interval of 95%, seed 7. In all: I/O method worker")


def test_few_pairs_are_said(made: ResultDocument) -> None:
    few = tuple(one for one in made.measurements.samples if one.round < 5)
    table = _tables(_with(made, samples=few))["Comparisons of median times"]
    assert {row[-2] for row in table.rows} == {"5"}
    assert "seed 7; fewer than 6 pairs are too few for a verdict" in table.caption


def test_medians(made: ResultDocument) -> None:
    questions = [one for one in made.measurements.questions if one.name == "stock's default"]
    table = _tables(_with(made, questions=tuple(questions)))["Median time by pages"]
    assert table.rows == (
        (STOCK, "425 ms", "425 ms"),
        (FAST, "212 ms", "212 ms"),
        (OURS, "212 ms", "212 ms"),
    )


def test_medians_are_left_out_where_comparisons_tell_them(made: ResultDocument) -> None:
    questions = [one for one in made.measurements.questions if one.name == "stock's default"]
    samples = [one for one in made.measurements.samples if one.arm != FAST]
    told = _with(made, questions=tuple(questions), samples=tuple(samples))
    assert [one.title for one in render_tables(told)] == ["Comparisons of median times"]


def test_panels_are_told_apart(made: ResultDocument) -> None:
    samples = tuple(
        make_trial_sample(make_trial_scenario("1 %", method), 0, STOCK, 1234.0)
        for method in ("worker", "sync")
    )
    titles = [one.title for one in render_tables(_with(made, samples=samples))]
    assert titles == [
        "Median time by pages: I/O method worker",
        "Median time by pages: I/O method sync",
    ]


def test_least_ratio_is_shown_of_repeated_executions(made: ResultDocument) -> None:
    samples = tuple(replace(one, executions=100) for one in made.measurements.samples)
    table = _tables(_with(made, samples=samples))["Comparisons of median times"]
    assert [column.name for column in table.columns].index("least ratio") == 4
    assert {row[4] for row in table.rows} == {"2.00", "1.00"}


def test_many_comparisons_have_a_table_for_each_question(made: ResultDocument) -> None:
    scenarios = [make_trial_scenario(f"{number} %") for number in range(7)]
    samples = tuple(
        make_trial_sample(scenario, number, arm, time_ms)
        for scenario in scenarios
        for number in range(3)
        for arm, time_ms in ((STOCK, 400.0), (FAST, 200.0), (OURS, 100.0))
    )
    questions = tuple(
        question
        for scenario in scenarios
        for question in (
            Question(scenario, "stock's default", (STOCK,), (OURS,)),
            Question(scenario, "best stock plan", (STOCK, FAST), (OURS,)),
        )
    )
    tables = _tables(_with(made, samples=samples, questions=questions))
    first = tables["Comparisons of median times: against stock's default"]
    assert [column.name for column in first.columns][:2] == ["scenario", "baseline time"]
    assert [row[0] for row in first.rows] == [f"pages {number} %" for number in range(7)]
    best = tables["Comparisons of median times: against best stock plan"]
    assert {row[1] for row in best.rows} == {FAST}


def test_other_arms_of_ours_are_named(made: ResultDocument) -> None:
    scenario, other = make_trial_scenario("10 %"), "ours, 0"
    samples = tuple(
        make_trial_sample(scenario, number, arm, time_ms)
        for number in range(3)
        for arm, time_ms in ((STOCK, 400.0), (OURS, 100.0), (other, 200.0))
    )
    questions = (
        Question(scenario, "stock's default", (STOCK,), (OURS,)),
        Question(scenario, OURS, (OURS,), (other,)),
    )
    result = _with(made, samples=samples, questions=questions)
    tables = _tables(result)
    (row,) = tables["Comparisons of median times"].rows
    assert row[1:5] == ("stock's default", "400 ms", "100 ms", "4.00")
    # Neither is stock: "ours is faster" would not say which.
    table = tables["Other comparisons of median times"]
    assert [column.name for column in table.columns][:3] == ["scenario", "challenger", "against"]
    assert [row[1:6] for row in table.rows] == [(other, OURS, "100 ms", "200 ms", "0.50")]
    assert "above 1 the challenger is faster" in table.caption
    group = comparison_groups(result.measurements)[1]
    assert [group.contest(one) for one in group.comparisons] == [
        "pages 10 %, ours, 0, against ours"
    ]


def test_scenarios_of_many_words_have_a_table_for_each_panel(made: ResultDocument) -> None:
    others = ("a rather long name of a method", "another name that is as long as the first one")
    scenarios = [make_trial_scenario("10 %", other) for other in others]
    samples = tuple(
        make_trial_sample(scenario, number, arm, 100.0)
        for scenario in scenarios
        for number in range(3)
        for arm in (STOCK, OURS)
    )
    questions = tuple(Question(one, "stock's default", (STOCK,), (OURS,)) for one in scenarios)
    tables = _tables(_with(made, samples=samples, questions=questions))
    for other in others:
        table = tables[f"Comparisons of median times: I/O method {other}"]
        assert [row[0] for row in table.rows] == ["pages 10 %"]


def test_nothing_measured_has_no_tables_of_results(made: ResultDocument) -> None:
    nothing = replace(made, measurements=Measurements())
    assert render_tables(nothing) == []
    titles = [one.title for one in evidence_tables(nothing)]
    assert titles == ["Machine and software", "Settings that differ from the defaults"]


def test_evidence_of_each_arm(made: ResultDocument) -> None:
    tables = _tables(made)
    scans = tables["What the scans did, in blocks of 8 kB"]
    names = [column.name for column in scans.columns]
    ours = dict(zip(names, scans.rows[2], strict=True))
    assert ours["arm"] == OURS
    assert ours["look-ahead"] == "prefetch"
    assert (ours["exact"], ours["lossy"], ours["asked"]) == ("400", "600", "200")
    # Columns of nothing but zeros are not shown.
    assert "workers" not in names and "removed" not in names
    device = tables["What the device and the sessions did"]
    assert device.rows[0][2:5] == ("1,000", "2,353", "8")
    assert tables["Cold starts"].rows == (("drop_caches", "36", "2 GB", "1 GB", "0 kB"),)
    assert tables["The same rows"].rows[0][1:] == (
        *(f"{STOCK} = {OURS}", "abababababababab", "1,000"),
    )
    assert tables["The arms"].rows[1][3] == "effective_io_concurrency = 64"
    assert tables["The tables"].rows == (
        ("lookahead_pages", "107,000", "1,000", "8.19 MB", "100 kB", "1.5 s"),
    )


def test_counts_and_checks(made: ResultDocument) -> None:
    samples = tuple(
        replace(
            one,
            counts={"wal_bytes": 2e6, "built_by_us": 1.0, "first_key": 7.0, "scanning_ms": 150.0},
        )
        for one in made.measurements.samples
    )
    check = Check(make_trial_scenario("10 %"), {"plan": "Limit, Index Scan", "blocks read": "0"})
    tables = _tables(_with(made, samples=samples, checks=(check,)))
    counted = tables["What was counted"]
    assert [column.name for column in counted.columns] == [
        *("scenario", "arm", "WAL", "built by us", "scanning"),
    ]
    assert counted.rows[0] == ("pages 10 %", STOCK, "2 MB", "1", "150 ms")
    assert tables["Verified before it was measured"].rows == (
        ("pages 10 %", "Limit, Index Scan", "0"),
    )


def test_what_nothing_was_counted_of_has_no_table(made: ResultDocument) -> None:
    samples = tuple(replace(one, counts={"built_by_us": 0.0}) for one in made.measurements.samples)
    assert "What was counted" not in _tables(_with(made, samples=samples))


def test_virtual_disks_are_not_called_rotating(made: ResultDocument) -> None:
    for disk, hypervisor, kind in (
        ("vda", None, "virtual disk"),
        ("sda", "kvm", "virtual disk"),
        ("sda", None, "rotating"),
    ):
        device = replace(MACHINE.device, disk=disk, rotational=True)
        machine = replace(MACHINE, hypervisor=hypervisor, device=device)
        assert f"({kind})" in machine_line(machine)
    assert "Example <Disk> (not rotating)" in machine_line(MACHINE)


def test_labels_name_what_does_not_speak_for_itself() -> None:
    one = Scenario((Factor("scan", "10,000 pages"), Factor("read-ahead", "128 kB")))
    other = Scenario((Factor("scan", "LIMIT 100"), Factor("read-ahead", "128 kB")))
    assert varying_names([one, other]) == ("scan",)
    assert common_text([one, other]) == "read-ahead 128 kB"
    assert scenario_label(one, ("scan",)) == "10,000 pages"
    assert scenario_label(other, ("scan", "read-ahead")) == "LIMIT 100, read-ahead 128 kB"
    workers = Scenario((Factor("workers", "2"),))
    assert scenario_label(workers, ()) == "workers 2"
    # A factor that some scenarios do not have tells them apart.
    assert varying_names([one, workers]) == ("scan", "read-ahead", "workers")


def test_markdown_cells_stay_cells() -> None:
    assert to_markdown([_HOSTILE]) == "\n".join(
        [
            r"**a\|b**",
            "",
            "| name | number |",
            "| --- | ---: |",
            r"| \<b\>\|\*x\*\\n\\x1b\[2J | 1,5 |",
            '| say "no" | 2 |',
            "",
            r"caption\_",
            "",
        ]
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("AT&amp;T costs $1$", r"AT\&amp;T costs \$1\$"),
        ("@someone", "@<!-- -->someone"),
        ("me@example.org", "me@<!-- -->example.org"),
        ("see #1", r"see \#<!-- -->1"),
        ("https://www.example.org", "https:<!-- -->//www<!-- -->.example.org"),
        (":smile:", ":<!-- -->smile:"),
        ("pairs: 6, at 10:15", "pairs: 6, at 10:15"),
    ],
)
def test_markdown_is_not_made_alive(text: str, shown: str) -> None:
    assert to_markdown([Table(text, (), ())]).startswith(f"**{shown}**\n")


def test_csv_reads_back() -> None:
    text = to_csv([_HOSTILE, _HOSTILE])
    rows = list(csv.reader(io.StringIO(text)))
    block = [
        ["table", "name", "number", "caption"],
        ["a|b", "<b>|*x*\\n\\x1b[2J", "1,5", "caption_"],
        ["a|b", 'say "no"', "2", "caption_"],
    ]
    assert rows == [*block, [], *block]
    assert to_csv([replace(_HOSTILE, caption="")]).startswith("table,name,number\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *((f"{sign}1+cmd()", f"'{sign}1+cmd()") for sign in "=+-@"),
        *((text, text) for text in ("-", "-5", "+1,000.5", "-5.63e+04", "1=1", "")),
        ("a\n\x1b", "a\\n\\x1b"),
        ("-\u0661", "'-\u0661"),
    ],
)
def test_csv_has_no_formula_anywhere(text: str, shown: str) -> None:
    table = Table(text, columns_of((text,)), ((text,),), text)
    heads, row = csv.reader(io.StringIO(to_csv([table])))
    assert heads == ["table", shown, *(["caption"] if text else [])]
    assert row == [shown, shown, *([shown] if text else [])]
