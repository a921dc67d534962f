"""Sessions hear of changed tables by one listener, whoever asks."""

from pathlib import Path

import pytest
from bulk_insert.arms import SWITCH
from bulk_insert.judging import VOLATILE, judgement
from compiling import loadable_library
from extension.probes import Connection
from server_log import WatchedServer

from intervals.needed import ON
from intervals.policies import make, set_policy
from intervals.test_not_created_for_rows import refused
from lookahead.installation import Installation

_SOURCE = Path(__file__).with_name("table_listeners.c")
_FILL = "INSERT INTO s.w SELECT g FROM generate_series(1, 100) g"
_NEEDING = "INSERT INTO s.p VALUES (1)"


@pytest.fixture(scope="module")
def others(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of others, built for the server under test."""
    return loadable_library(_SOURCE, tmp_path_factory, installation)


def _fill(session: Connection) -> object:
    return judgement(session, _FILL, "ANALYZE, LOOKAHEAD")


@pytest.mark.parametrize("first", ["insert", "partition"])
def test_both_hear_where_there_is_room_for_one(
    session: Connection, server: WatchedServer, others: Path, first: str
) -> None:
    """The session would end with the eleventh listener of all libraries."""
    session.execute(f"LOAD '{others}'; SELECT ARRAY[1] = ARRAY[1]")  # the cache of types listens
    make(session, "int")
    session.execute(
        "CREATE FUNCTION s.looks(int) RETURNS boolean LANGUAGE plpgsql AS "
        "'BEGIN RETURN true; END'; CREATE TABLE s.w (k int CONSTRAINT a CHECK (k > 0))"
    )
    session.execute(f"SET {SWITCH} = on; {ON}")
    if first == "insert":
        assert _fill(session) == {"Status": "prefetch"}
    refused(session, _NEEDING)
    assert _fill(session) == {"Status": "prefetch"}
    with server.connect() as other:
        other.execute(
            "ALTER TABLE s.w DROP CONSTRAINT a, ADD CONSTRAINT a CHECK (s.looks(k)) NOT VALID"
        )
        assert _fill(session) == VOLATILE
        set_policy(other, "10")
        session.execute(_NEEDING)
