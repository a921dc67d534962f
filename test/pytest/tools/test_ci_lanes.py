"""The lanes of .ci/run: steps at once, their limits, the end of the hour, an end from outside."""

import signal
import subprocess
from pathlib import Path

import pytest
from waiting import wait_until

_LANES = Path(__file__).resolve().parents[3] / ".ci" / "lanes"
# Ends by itself, should it ever be left behind.
_LONG = "sleep 250"


class Script:
    """A script with steps, in a folder of its own."""

    def __init__(self, folder: Path, steps: str, **variables: str) -> None:
        self.folder = folder
        path = folder / "script"
        path.write_text(f"set -uo pipefail\n. {_LANES}\n{steps}\nend_all\n")
        self.command = ["bash", str(path)]
        self.environment = {"PATH": "/usr/bin:/bin", **variables}

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self) -> tuple[int, str]:
        """The exit status, and all that was printed."""
        with self.start() as process:
            output, _ = process.communicate(timeout=200)
        return process.returncode, output


def test_two_steps_run_at_once_and_the_table_has_both(tmp_path: Path) -> None:
    """Each waits for a file that the other makes."""
    meet = "touch {0}; until [ -e {1} ]; do sleep 0.01; done; echo {0} has met"
    steps = "".join(
        f"begin {mine} 150 bash -c '{meet.format(mine, other)}'\n"
        for mine, other in (("one", "two"), ("two", "one"))
    )
    status, output = Script(tmp_path, steps, LANES="2").run()
    assert status == 0, output
    table = output.partition("Time table")[2]
    for name in ("one", "two"):
        assert f"{name} has met" in output
        assert any(
            line.split()[0] == name and line.endswith("  ok") for line in table.splitlines()[1:]
        )
        assert (tmp_path / "build/ci" / f"{name}.log").read_text() == f"{name} has met\n"
    assert "FAILED" not in output


def test_after_a_step_that_fails_the_others_run(tmp_path: Path) -> None:
    steps = """
begin bad 100 bash -c 'echo why; exit 3'
await bad
echo "bad ended with $?"
begin good 100 echo fine
await good && echo 'good is good'
await never_begun || echo 'that one is not'
"""
    status, output = Script(tmp_path, steps).run()
    assert status == 1
    for text in ("why\n", "bad ended with 3\n", "fine\n", "good is good\n", "that one is not\n"):
        assert text in output
    assert output.endswith("FAILED: bad\n")


def test_a_step_beyond_its_limit_is_stopped_and_named(tmp_path: Path) -> None:
    steps = f"begin slow 1 bash -c '{_LONG}; echo later'\nbegin after 100 echo fine\n"
    status, output = Script(tmp_path, steps, LANES="1").run()
    assert status == 1
    assert "slow ends: FAILED, stopped after 1 s" in output
    assert "later" not in output.replace("; echo later", "")
    assert "fine\n" in output
    assert output.endswith("FAILED: slow\n")


def test_nothing_runs_after_the_hour(tmp_path: Path) -> None:
    steps = f"begin long 100 {_LONG}\nbegin next 100 touch began\n"
    status, output = Script(tmp_path, steps, LANES="1", END_OF_HOUR="1").run()
    assert status == 1
    assert "long ends: FAILED, stopped after 1 s" in output
    assert "NOT RUN, the hour was over" in output
    assert output.endswith("FAILED: long next\n")
    assert not (tmp_path / "began").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_is_under_way_when_it_is_ended_is_named(tmp_path: Path, number: int) -> None:
    # timeout(1) ends without its child when it is ended before it knows it.
    long = f"sleep 1; echo $$ >id; exec {_LONG}"
    steps = f"begin done 100 true\nawait done\nbegin long 100 bash -c '{long}'\n"
    with Script(tmp_path, steps).start() as process:
        wait_until(lambda: (tmp_path / "id").exists() and (tmp_path / "id").read_text(), "a step")
        process.send_signal(number)
        output, _ = process.communicate(timeout=100)
    assert process.returncode == 1
    assert "FAILED, under way when the run was ended" in output
    assert output.endswith("FAILED: long\n")
    step = Path("/proc", (tmp_path / "id").read_text().strip())
    wait_until(lambda: not step.exists(), "the end of the step")
