"""The statements of the experiment "controls": their text, and what is refused to be compared."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from server_log import ServerFactory, WatchedServer

from lookahead.errors import LabError
from lookahead.extension import Stage
from lookahead_bench.control_shape import Shape, check_loaded, check_plans, procedure, setup_of
from lookahead_bench.control_shapes import SHAPES

Sessions = dict[str, psycopg.Connection[Any]]

_SHAPE = Shape(
    "by-id",
    ("SELECT pad FROM thing WHERE id = :key", "INSERT INTO thing VALUES (:key + 100000, 'x')"),
    10,
    (
        "CREATE TABLE thing (id int PRIMARY KEY, pad text)",
        "INSERT INTO thing SELECT id, 'x' FROM generate_series(1, 20000) AS id",
    ),
    ("Index Scan", "ModifyTable"),
)


@pytest.fixture
def server(server_factory: ServerFactory, stage: Stage) -> Iterator[WatchedServer]:
    settings = {"plan_cache_mode": "force_generic_plan", "enable_bitmapscan": "off"}
    with server_factory(stage=stage, settings=settings) as made:
        with made.connect() as connection:
            for statement in (*setup_of([_SHAPE]), procedure(_SHAPE), "ANALYZE thing"):
                connection.execute(statement)
        yield made


@pytest.fixture
def sessions(server: WatchedServer) -> Iterator[Sessions]:
    options = {
        "not loaded": "-c session_preload_libraries=",
        "off": "-c pg_lookahead.enabled=off",
        "on": "",
    }
    with ExitStack() as stack:
        yield {
            arm: stack.enter_context(server.connect(options=chosen))
            for arm, chosen in options.items()
        }


def test_names_are_unique_and_texts_are_lines() -> None:
    names = [shape.name for shape in SHAPES]
    assert len(set(names)) == len(names)
    assert len({shape.procedure_name for shape in SHAPES}) == len(names)
    for shape in SHAPES:
        # A single-user server takes a line for a statement.
        texts = (*shape.setup, *shape.statements, procedure(shape))
        assert not any("\n" in text for text in texts)
        assert all(":key" in text for text in shape.statements if "WHERE id =" in text)


def test_what_is_made_is_made_once() -> None:
    statements = setup_of(SHAPES)
    assert len(set(statements)) == len(statements)
    tables = [text.split()[2] for text in statements if text.startswith("CREATE TABLE")]
    assert len(set(tables)) == len(tables)


def test_a_procedure_executes_all_statements(sessions: Sessions) -> None:
    row = sessions["on"].execute(f"CALL {_SHAPE.procedure_name}(1, 7, NULL)").fetchone()
    assert row is not None and row[0] > 0
    assert sessions["on"].execute("SELECT count(*) FROM thing").fetchone() == (20_007,)


def test_the_same_plan_in_all_arms(sessions: Sessions) -> None:
    assert check_plans(sessions, _SHAPE) == {
        "plan": "Index Scan, ModifyTable, Result",
        "attached in": "on",
        "blocks read": "0",
    }
    # Queries were executed, and nothing else.
    assert sessions["on"].execute("SELECT count(*) FROM thing").fetchone() == (20_000,)


def test_another_plan_than_meant(sessions: Sessions) -> None:
    with pytest.raises(LabError, match="control by-id cannot be compared") as caught:
        check_plans(sessions, replace(_SHAPE, nodes=("Seq Scan",)))
    assert "All arms need the same plan, with Seq Scan" in caught.value.hint


def test_another_plan_in_one_arm(sessions: Sessions) -> None:
    sessions["off"].execute("SET enable_indexscan = off")
    with pytest.raises(LabError, match="control by-id cannot be compared"):
        check_plans(sessions, _SHAPE)


def test_attached_where_it_must_not_be(sessions: Sessions) -> None:
    sessions["off"].execute("SET pg_lookahead.enabled = on")
    with pytest.raises(LabError, match="control by-id: attached in off, on"):
        check_plans(sessions, _SHAPE)


def test_data_that_is_not_where_it_is_meant_to_be(sessions: Sessions) -> None:
    """In shared buffers it is, so that nothing is read."""
    with pytest.raises(LabError, match="read 0 blocks from outside shared buffers"):
        check_plans(sessions, replace(_SHAPE, state="cold", pages=100))


def test_an_arm_that_is_not_what_it_says(sessions: Sessions) -> None:
    check_loaded(sessions["not loaded"], _SHAPE, "not loaded", wanted=False)
    check_loaded(sessions["on"], _SHAPE, "on", wanted=True)
    with pytest.raises(LabError, match="the arm 'not loaded' is not what it says"):
        check_loaded(sessions["on"], _SHAPE, "not loaded", wanted=False)
