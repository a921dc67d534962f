"""What experiments declare, and how the values of their options are written; without a server."""

from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from lab.declarations import check_declaration
from lab.outcome import run_command
from lookahead.cli import cli
from lookahead.commands.options import CommandContext
from lookahead.commands.run import EXPERIMENTS, make_run_group, show_outcome
from lookahead.errors import ExitStatus, LabError
from lookahead.experiments import bitmap_scan
from lookahead.experiments.experiment import (
    Choice,
    Count,
    Experiment,
    Flag,
    Kind,
    MemorySize,
    Number,
    Option,
    Percent,
    duration_text,
    memory_text,
    sized,
)
from lookahead.report.result_tables import render_tables
from lookahead.report.sentences import headline
from lookahead.report.tables import to_csv, to_markdown
from lookahead.results import ResultDocument, encode
from lookahead.terminal import Terminal


@pytest.mark.parametrize("text", ["1_0", "\u0661\u0662", " 5", "0x5", "1e400", "nan", "inf", ""])
@pytest.mark.parametrize("kind", [Count(1, 100), Number(most=100), Percent(), MemorySize()])
def test_numbers_are_written_in_one_way(kind: Kind, text: str) -> None:
    unit = "kB" if isinstance(kind, MemorySize) else ""
    with pytest.raises(ValueError, match="is not a"):
        kind.parse(text + unit)


@pytest.mark.parametrize("kind", [Count(1, 100), Number(most=100), Percent(), MemorySize()])
@pytest.mark.parametrize("text", ["9" * 5000, "9" * 5000 + "kB", "x" * 5000])
def test_a_long_value_is_not_repeated_whole(kind: Kind, text: str) -> None:
    with pytest.raises(ValueError, match="is not") as caught:
        kind.parse(text)
    assert len(str(caught.value)) < 120


def test_a_share_is_never_shown_as_nothing() -> None:
    least = Percent().parse("0.00001")
    assert Percent().parse(Percent().show(least)) == least
    with pytest.raises(ValueError, match=r"'1e-8' is not a percentage from 0\.00001 up"):
        Percent().parse("1e-8")


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--repetitions", "1_0"),
        ("check", "--time-limit", "1_0"),
        ("check", "--seed", "\u0661"),
        ("probe", "--time", "1_0"),
        ("probe", "--rate", "9" * 5000),
    ],
)
def test_numbers_of_commands_are_written_likewise(words: tuple[str, ...]) -> None:
    outcome = run_command(*words)
    assert outcome.status is ExitStatus.USAGE
    assert any(word in outcome.stderr for word in ("number", "is not in the range"))
    assert len(outcome.stderr) < 300


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Count(0, 8), "8", 8),
        (Number(2.0), "0.25", 0.25),
        (Percent(), "42", 0.42),
        (Percent(), "0.1", 0.001),
        (MemorySize(), "512kB", 512),
        (MemorySize(), "4MB", 4096),
        (MemorySize(), "1GB", 2**20),
        (MemorySize(0), "0kB", 0),
        (Choice(("seq", "index")), "index", "index"),
    ],
)
def test_values_are_shown_as_they_are_written(kind: Kind, text: str, value: object) -> None:
    assert kind.parse(text) == value
    assert kind.show(value) == text


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (Count(0, 8), "9", "9 is not in the range 0 to 8"),
        (Count(0, 8), "", "'' is not a whole number"),
        (Number(2.0), "inf", "'inf' is not a number above 0 and up to 2"),
        (Number(2.0), "nan", "'nan' is not a number above 0"),
        (Percent(), "101", "'101' is not a percentage"),
        (Percent(), "half", "'half' is not a percentage"),
        (MemorySize(), "4", "'4' is not a size such as 4MB or 512kB"),
        (MemorySize(), "4mb", "'4mb' is not a size"),
        (MemorySize(), "-4MB", "'-4MB' is not a size"),
        (MemorySize(), "MB", "'MB' is not a size"),
        (MemorySize(), "٤MB", "is not a size"),
        (MemorySize(64, 1024), "63kB", "'63kB' is not in the range 64kB to 1MB"),
        (MemorySize(64, 1024), f"{'9' * 5000}MB", "is not in the range 64kB to 1MB"),
        (Choice(("seq", "index")), "hash", "'hash' is not one of 'seq', 'index'"),
        (Flag(), "yes", "it takes no value"),
    ],
)
def test_values_that_are_none(kind: Kind, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        kind.parse(text)
    assert message in str(caught.value)


def test_sizes_are_shown_in_whole_units() -> None:
    shown = {0: "0kB", 64: "64kB", 1536: "1536kB", 1024: "1MB", 3000 * 1024: "3000MB"}
    assert {size: memory_text(size) for size in shown} == shown


def test_durations() -> None:
    shown = {61.0: "2 minutes", 60.0: "1 minute", 7140.0: "119 minutes", 7201.0: "3 hours"}
    assert {seconds: duration_text(seconds) for seconds in shown} == shown


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: one.name)
def test_declarations(experiment: Experiment[Any]) -> None:
    check_declaration(experiment)


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ("bitmap-scan --setting 16 --plan none", "--setting"),
        ("bitmap-scan --setting 0,16 --plan seq,index", "--setting"),
    ],
)
def test_options_that_make_no_difference_are_refused(words: str, refused: str) -> None:
    outcome = run_command("run", *words.split(), "--demo")
    assert outcome.status is ExitStatus.USAGE
    assert outcome.stderr.startswith(f"error: {refused} makes no difference without --")
    assert f"hint: Leave {refused} out, or add --" in outcome.stderr


def test_named_settings_are_measured_and_named_plans_have_some() -> None:
    wanted = bitmap_scan.EXPERIMENT.wanted
    assert wanted("demo", {}).setting == ()
    assert wanted("demo", {"setting": (16,)}).plan == ("seq", "index", "bitmap")
    assert wanted("demo", {"plan": ("bitmap",)}).setting == (0, 1, 16, 64, 256)
    assert wanted("demo", {"plan": ("bitmap",), "setting": ()}).setting == ()
    # Ours is measured at these.
    assert wanted("demo", {"plan": (), "setting": (0, 1)}).plan == ()


@dataclass(frozen=True)
class _Made:
    """What the experiment below wants."""

    depth: tuple[int, ...] = Option(Count(1, 9), "Depths.", may_be_none=True).sized((1, 2), demo=())
    share: tuple[float, ...] = Option(Percent(), "Shares.").sized((0.5,))
    slow: bool = Option(Flag(), "Slowly.").sized(False)
    repetitions: int = sized(4)


_QUICK = _Made((1, 2), (0.5,), False, 4)


def _made(seen: list[tuple[_Made, frozenset[str]]]) -> Experiment[_Made]:
    def settle(wanted: _Made, explicit: frozenset[str]) -> _Made:
        seen.append((wanted, explicit))
        raise LabError("seen")  # before a server is looked for

    return Experiment(
        name="made",
        summary="Nothing.",
        description="For a test.",
        asked=_Made,
        settings=lambda wanted: {},
        needed_bytes=lambda wanted: 0,
        estimated_seconds=lambda wanted: 0.0,
        measure=lambda run, wanted: None,
        settle=settle,
    )


@pytest.mark.parametrize(
    ("words", "wanted", "explicit"),
    [
        (("made",), _QUICK, ()),
        (("made", "--quick"), _QUICK, ()),
        (("made", "--demo"), replace(_QUICK, depth=()), ()),
        (("made", "--depth", "3, 4,3"), replace(_QUICK, depth=(3, 4)), ("depth",)),
        (("made", "--depth", "3", "--depth", "2,3"), replace(_QUICK, depth=(3, 2)), ("depth",)),
        (("made", "--depth", "none"), replace(_QUICK, depth=()), ("depth",)),
        (
            ("made", "--slow", "--share", "7"),
            replace(_QUICK, slow=True, share=(0.07,)),
            ("slow", "share"),
        ),
        # Written alike they are one scenario.
        (("made", "--share", "10,10.00001"), replace(_QUICK, share=(0.1,)), ("share",)),
    ],
)
def test_options_of_an_experiment_of_another_package(
    words: tuple[str, ...],
    wanted: _Made,
    explicit: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[_Made, frozenset[str]]] = []
    group = make_run_group([_made(seen)])
    monkeypatch.setitem(cli.commands, "run", group)
    outcome = run_command("run", *words)
    assert outcome.stderr == "error: seen\n"
    assert outcome.status is ExitStatus.FAILURE
    assert seen == [(wanted, frozenset(explicit))]


@pytest.mark.parametrize("form", ["json", "markdown", "csv"])
def test_forms_have_standard_output_to_themselves(
    form: str, document: ResultDocument, tmp_path: Path
) -> None:
    result = tmp_path / "made.json"
    result.write_text(encode(document))
    stdout, stderr = StringIO(), StringIO()
    show_outcome(CommandContext(Terminal(stdout, stderr, width=80), ()), result, form)
    tables = render_tables(document)
    texts = {"json": encode(document), "markdown": to_markdown(tables), "csv": to_csv(tables)}
    assert stdout.getvalue() == texts[form]
    assert f"page:       {result.with_suffix('.html')}" in stderr.getvalue()
    assert headline(document.experiment, document.measurements.comparisons)[0] in stderr.getvalue()
