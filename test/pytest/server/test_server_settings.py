"""Settings reach the server as they were given."""

import pytest
from server_log import ServerFactory

from lookahead.errors import ExitStatus, LabError
from lookahead.server_folder import neutral_environment, settings_text


@pytest.mark.parametrize(
    ("value", "written"),
    [("64MB", "'64MB'"), ("it's", "'it''s'"), (r"a\b", r"'a\\b'"), ("", "''")],
)
def test_values_are_quoted(value: str, written: str) -> None:
    assert settings_text({"pg_lookahead.enabled": value}).endswith(
        f"\npg_lookahead.enabled = {written}\n"
    )


@pytest.mark.parametrize("name", ["", "a b", "a;b", "include 'x'", "a.b\nc", "1a"])
def test_names_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(LabError, match="is not the name of a setting") as caught:
        settings_text({name: "on"})
    assert caught.value.status is ExitStatus.USAGE


def test_line_breaks_are_refused() -> None:
    with pytest.raises(LabError, match="line break"):
        settings_text({"work_mem": "4MB\nfsync = off"})


def test_the_users_habits_do_not_reach_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGOPTIONS", "PGDATA", "LC_MESSAGES", "LANGUAGE", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, "/mine")
    monkeypatch.setenv("KEPT", "yes")
    environment = neutral_environment("/folder")
    assert "/mine" not in environment.values()
    assert (environment["KEPT"], environment["HOME"]) == ("yes", "/folder")


def test_the_server_reads_them_literally(server_factory: ServerFactory) -> None:
    odd = r"it's \n a \\ test"
    settings = {"la_test.odd": odd, "work_mem": "5MB"}
    with server_factory(settings=settings) as server, server.connect() as connection:
        query = "select current_setting('la_test.odd'), current_setting('work_mem')"
        assert connection.execute(query).fetchone() == (odd, "5MB")
