"""The driver itself: it must see a difference, and its replay script must run."""

from random import Random

import pytest
from server_log import ServerFactory
from waiting import wait_until

from differential.campaign import Round, Tally, random_case, random_tables
from differential.case import ArmResult, Case, Outcome, Step
from differential.joins import EXECUTED
from differential.population import build
from differential.procedures import TRACE_TABLE
from differential.replay import script
from differential.runner import Runner, compare
from differential.settings import Profile, random_profile

_CASE = Case("plain", (Step("SELECT 1"),), explainable="SELECT 1")


def _arm(
    *rows: bytes, sqlstate: str = "", tag: str = "SELECT", plan: str = "Index Scan"
) -> ArmResult:
    outcome = Outcome("SELECT 1", sqlstate, tag, tuple((row,) for row in rows))
    return ArmResult((outcome,), plan)


@pytest.mark.parametrize(
    ("off", "on", "found"),
    [
        (_arm(b"1", b"2"), _arm(b"1", b"2"), ""),
        (_arm(b"1", b"2"), _arm(b"2", b"1"), "rows (in order)"),
        (_arm(b"1", b"2"), _arm(b"1"), "row counts"),
        (_arm(b"1"), _arm(sqlstate="22012"), "SQLSTATEs"),
        (_arm(b"1"), _arm(b"1", tag="SELECT 2"), "command tags"),
        (_arm(b"1", b"2", plan="Gather"), _arm(b"2", b"1", plan="Gather"), ""),
        (_arm(b"1", b"2", plan="Gather"), _arm(b"2", b"3", plan="Gather"), "rows (as a set)"),
        (_arm(b"1", b"2"), _arm(b"2", b"1", plan="other"), ""),
    ],
)
def test_comparison_finds_what_it_should(off: ArmResult, on: ArmResult, found: str) -> None:
    difference = compare(_CASE, off, on).difference
    if found:
        assert difference is not None
        assert difference.reason.startswith(found)
    else:
        assert difference is None


def test_generator_is_determined_by_its_seed() -> None:
    def statements(seed: int) -> list[str]:
        rng = Random(seed)
        tables = random_tables(rng)
        built = [statement for table in tables for statement in build(table)]
        cases = [random_case(rng, tables, test_settings=True) for _ in range(50)]
        return built + [step.sql for case in cases for step in case.steps]

    assert statements(1) == statements(1)
    assert statements(1) != statements(2)


def test_planted_difference_stops_a_round(server_factory: ServerFactory) -> None:
    """An `on` arm that shows times in another zone is wrong in a way only rows tell."""
    with server_factory() as server, server.connect() as connection:
        runner = Runner(connection)
        profile = Profile({}, {"TimeZone": "Asia/Tokyo"}, "READ COMMITTED", on_first=False)
        case = Case(
            "plain", (Step("SELECT to_timestamp(0)"),), explainable="SELECT to_timestamp(0)"
        )
        difference = runner.run(case, profile).difference
        assert difference is not None
        assert difference.reason.startswith("rows (in order)")


def test_pins_left_behind_are_seen(server_factory: ServerFactory) -> None:
    """As an example, the pin of another session's idle cursor."""
    with server_factory() as server, server.connect() as connection, server.connect() as other:
        connection.execute("CREATE EXTENSION pg_buffercache")
        round_ = Round(connection, 1, 0, test_settings=False, tally=Tally())
        wait_until(lambda: not round_.leftovers(), "nothing is pinned yet")
        other.execute("BEGIN")
        other.execute("DECLARE k CURSOR FOR SELECT * FROM pg_class")
        other.execute("FETCH 1 FROM k")
        assert round_.leftovers()


def test_replay_script_runs_to_its_end(server_factory: ServerFactory, seed: int) -> None:
    rng = Random(seed)
    tables = random_tables(rng)
    statements = ["CREATE SCHEMA d", "SET search_path = d, public", TRACE_TABLE, EXECUTED]
    statements += [statement for table in tables for statement in build(table)]
    profile = random_profile(rng, parallel=False, test_settings=False)
    sql = script(random_case(rng, tables, test_settings=False), profile, statements)
    with server_factory() as server:
        done = server.run_client("psql", "-X", "-q", "-f", "-", input=sql + "\\echo reached\n")
    assert done.stdout.endswith("reached\n")
