"""The trial of sequential scans, alone: compiled as a library and run by a clock of our own."""

import ctypes
from dataclasses import dataclass
from pathlib import Path

import pytest
from compiling import shared_library

from lookahead.installation import Installation

_TOP = Path(__file__).resolve().parents[3]
_SOURCE = Path(__file__).with_name("trial_clock.c")

# Pages that a scan does not ask ahead for as it begins, pages that it does ask ahead for after
# that, and pages until the next trial: la_trial.c says why.
_UNTIMED = 2_048
_TIMED = 1_024
_PLAIN = _ASKED = _UNTIMED + _TIMED
_DECIDED = 131_072


class CTrial(ctypes.Structure):
    _fields_ = (
        ("phase", ctypes.c_int),
        ("ask", ctypes.c_bool),
        ("pages", ctypes.c_uint32),
        ("began", ctypes.c_int64),
        ("plain", ctypes.c_int64),
        ("factor", ctypes.c_double),
        ("divisor", ctypes.c_uint32),
        ("safe_divisor", ctypes.c_uint32),
    )


# How many times as fast asking has to be in these tests.
FACTOR = 1.33


@dataclass(frozen=True)
class Trial:
    """The compiled trial of one scan."""

    library: ctypes.CDLL
    state: CTrial

    def start(self, divisor: int = 1, safe_divisor: int = 1) -> None:
        self.library.la_trial_start(
            ctypes.byref(self.state), ctypes.c_double(FACTOR), divisor, safe_divisor
        )

    def pages(self, count: int, *, plain: int, asked: int) -> list[bool]:
        """Whether each of `count` pages is to be asked ahead from; they take so many ns each."""
        answers: list[bool] = []
        for _ in range(count):
            asks = answers[-1] if answers else self.state.ask
            self.library.clock_advance(ctypes.c_int64(asked if asks else plain))
            answers.append(bool(self.library.la_trial_pages(ctypes.byref(self.state), 1)))
        return answers


@pytest.fixture(scope="module")
def library(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("trial")
    loaded = ctypes.CDLL(str(shared_library(_SOURCE, folder, installation, f"-I{_TOP / 'src'}")))
    loaded.la_trial_pages.restype = ctypes.c_bool
    return loaded


@pytest.fixture
def trial(library: ctypes.CDLL) -> Trial:
    made = Trial(library, CTrial())
    made.start()
    return made


def _changes(answers: list[bool]) -> list[tuple[int, bool]]:
    """The pages at which the answer becomes another one than before, and what it becomes."""
    before = [False, *answers[:-1]]
    return [
        (page, new)
        for page, (old, new) in enumerate(zip(before, answers, strict=True))
        if old != new
    ]


def test_nothing_is_asked_for_before_the_plain_pages_were_timed(trial: Trial) -> None:
    answers = trial.pages(_PLAIN + 10, plain=50_000, asked=50_000)
    assert _changes(answers) == [(_PLAIN - 1, True)]


def test_a_part_of_the_pages_may_do(trial: Trial) -> None:
    trial.start(divisor=16, safe_divisor=16)
    answers = trial.pages((_PLAIN + _ASKED) // 16 + 10, plain=50_000, asked=50_000)
    assert _changes(answers) == [(_PLAIN // 16 - 1, True), ((_PLAIN + _ASKED) // 16 - 1, False)]


def test_of_the_pages_while_the_way_changes_all_are_needed(trial: Trial) -> None:
    trial.start(divisor=4)
    ends = _PLAIN // 4 + _UNTIMED + _TIMED // 4
    answers = trial.pages(ends + _DECIDED // 4 + _PLAIN, plain=50_000, asked=50_000)
    assert _changes(answers) == [
        (_PLAIN // 4 - 1, True),
        (ends - 1, False),
        # The next trial is not shortened.
        (ends + _DECIDED // 4 + _PLAIN - 1, True),
    ]


@pytest.mark.parametrize(("plain", "asks"), [(9_000, False), (11_000, True)])
def test_pages_that_come_quickly_leave_nothing_to_gain(
    trial: Trial, plain: int, asks: bool
) -> None:
    assert (True in trial.pages(_PLAIN + _DECIDED, plain=plain, asked=1_000)) == asks


def test_the_change_may_end_earlier(trial: Trial) -> None:
    trial.pages(_PLAIN + 10, plain=50_000, asked=50_000)
    trial.library.la_trial_end_change(ctypes.byref(trial.state))
    answers = trial.pages(_TIMED + 10, plain=50_000, asked=50_000)
    assert _changes([True, *answers]) == [(0, True), (_TIMED + 1, False)]


@pytest.mark.parametrize(
    ("plain", "asked", "gains"),
    [
        (100_000, 20_000, True),
        (100_000, 74_000, True),
        (100_000, 76_000, False),  # not clearly faster
        (100_000, 100_000, False),
        (9_000, 10_000, False),
    ],
)
def test_what_was_clearly_faster_is_done(trial: Trial, plain: int, asked: int, gains: bool) -> None:
    trial.pages(_PLAIN + _ASKED, plain=plain, asked=asked)
    later = trial.pages(_DECIDED - 1, plain=plain, asked=asked)
    assert set(later) == {gains}


def test_pages_while_the_way_changes_are_not_timed(trial: Trial) -> None:
    """What the kernel has read ahead as the change begins makes the first asked pages fast."""
    trial.pages(_UNTIMED, plain=1, asked=1)
    trial.pages(_TIMED, plain=50_000, asked=50_000)
    trial.pages(_UNTIMED, plain=1, asked=1)
    trial.pages(_TIMED, plain=50_000, asked=50_000)
    assert trial.pages(100, plain=50_000, asked=50_000) == [False] * 100


def test_the_trial_is_repeated_and_may_decide_otherwise(trial: Trial) -> None:
    one_round = _PLAIN + _ASKED + _DECIDED
    trial.pages(one_round, plain=100_000, asked=20_000)
    answers = trial.pages(_PLAIN + _ASKED + 1_000, plain=50_000, asked=50_000)
    assert _changes(answers) == [(_PLAIN - 1, True), (_PLAIN + _ASKED - 1, False)]
    trial.pages(_DECIDED - 1_000, plain=50_000, asked=50_000)
    trial.pages(_PLAIN + _ASKED, plain=100_000, asked=20_000)
    assert set(trial.pages(1_000, plain=100_000, asked=20_000)) == {True}


def test_a_scan_that_begins_anew_forgets_the_verdict(trial: Trial) -> None:
    trial.pages(_PLAIN + _ASKED + 10, plain=100_000, asked=20_000)
    assert trial.state.ask
    trial.start()
    assert trial.pages(_PLAIN - 1, plain=50_000, asked=50_000) == [False] * (_PLAIN - 1)
