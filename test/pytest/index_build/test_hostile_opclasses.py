"""Comparison and key functions that throw, contradict themselves, or build indexes themselves."""

import psycopg
import pytest
from extension.probes import Connection, scalar
from server_log import WatchedServer

from index_build.stories import compare
from index_build.twins import Twins, choose

_ROWS = (
    "CREATE TABLE h (k int, s text)",
    "INSERT INTO h SELECT hashint4(i) % 1000, 's' || i FROM generate_series(1, 3000) i",
)
_CLASS = (
    "CREATE OPERATOR CLASS {name} FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, "
    "OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 {function}(int, int)"
)


def _comparison(name: str, body: str) -> tuple[str, str]:
    """A comparison of integers in PL/pgSQL, and an operator class that uses it."""
    function = (
        f"CREATE FUNCTION {name}(int, int) RETURNS int LANGUAGE plpgsql VOLATILE AS "
        f"$$ BEGIN {body} END $$"
    )
    return function, _CLASS.format(name=f"{name}_ops", function=name)


def test_comparison_that_throws(twins: Twins) -> None:
    statements = (
        *_ROWS,
        *_comparison(
            "throws",
            "IF $1 = 77 OR $2 = 77 THEN RAISE 'no %', 77; END IF; RETURN btint4cmp($1, $2);",
        ),
        "CREATE INDEX h_k ON h (k throws_ops)",
        "CREATE INDEX h_both ON h (s, k throws_ops)",
        "CREATE INDEX h_after ON h (k)",
    )
    # Texts are all different, so that the second key is never compared.
    told = compare(twins, statements, built=1, fails=["P0001"])
    assert sorted(told.indexes) == ["h_after", "h_both"]


def test_honest_comparison_of_ones_own(twins: Twins) -> None:
    """Backwards, and with an equality that is coarser than that of the values."""
    statements = (
        *_ROWS,
        *_comparison("backward", "RETURN btint4cmp($2, $1);"),
        *_comparison("coarse", "RETURN btint4cmp($1 / 10, $2 / 10);"),
        "CREATE INDEX h_b ON h (k backward_ops)",
        "CREATE INDEX h_c ON h (k coarse_ops)",
        "CREATE INDEX h_m ON h ((k % 10), k backward_ops DESC, s)",
    )
    compare(twins, statements)


@pytest.mark.long
@pytest.mark.parametrize(
    "body",
    [
        "RETURN (random() * 2)::int - 1;",
        "RETURN 1;",
        "RETURN -1;",
        "RETURN 0;",
        "RETURN CASE WHEN $1 % 2 = $2 % 2 THEN btint4cmp($1, $2) ELSE btint4cmp($2, $1) END;",
        "RETURN NULL;",
        "RETURN -2147483648;",
    ],
)
def test_comparison_that_contradicts_itself(
    server: WatchedServer, connection: Connection, body: str
) -> None:
    """Any index or any error is right; a crash, a hang or a damaged table is not."""
    if "random" in body and scalar(connection, "SHOW debug_assertions") == "on":
        pytest.skip("PostgreSQL's own build fails an assertion in _bt_truncate()")
    connection.execute("DROP SCHEMA IF EXISTS twin CASCADE; CREATE SCHEMA twin")
    connection.execute("SET search_path = twin, public")
    for statement in (*_ROWS, *_comparison("odd", body)):
        connection.execute(statement)
    choose(connection, "ours")
    for keys in ("k odd_ops", "k odd_ops DESC, s", "s, k odd_ops", "(k % 3) odd_ops"):
        for unique in ("", "UNIQUE"):
            try:
                connection.execute(f"CREATE {unique} INDEX ON h ({keys})")
            except psycopg.Error as error:
                assert error.sqlstate in ("23505", "39000", "XX000", "XX002"), error
                assert "terminated" not in str(error)
    assert scalar(connection, "SELECT count(*) FROM h") == 3000
    with server.connect() as other:
        assert scalar(other, "SELECT count(*) FROM twin.h") == 3000


def test_comparison_that_builds_an_index(twins: Twins) -> None:
    """Within a build another one, with its own table, sort and error."""
    nested = (
        "IF NOT EXISTS (SELECT FROM pg_class WHERE relname = 'other_k') THEN "
        "CREATE INDEX other_k ON twin.other (k); "
        "BEGIN CREATE UNIQUE INDEX ON twin.other (m); EXCEPTION WHEN unique_violation THEN NULL; "
        "END; END IF; RETURN btint4cmp($1, $2);"
    )
    statements = (
        *_ROWS,
        "CREATE TABLE other AS SELECT i AS k, i % 2 AS m FROM generate_series(1, 2000) i",
        *_comparison("builds", nested),
        "CREATE INDEX h_k ON h (k builds_ops)",
        "CREATE INDEX h_s ON h (s)",
    )
    told = compare(twins, statements, built=2)
    assert sorted(told.indexes) == ["h_k", "h_s", "other_k"]


def test_key_function_that_builds_an_index(twins: Twins) -> None:
    """While the table is being read."""
    statements = (
        *_ROWS,
        "CREATE TABLE other AS SELECT i AS k FROM generate_series(1, 2000) i",
        "CREATE FUNCTION build_other() RETURNS void LANGUAGE plpgsql VOLATILE AS "
        "$$ BEGIN IF NOT EXISTS (SELECT FROM pg_class WHERE relname = 'other_k') THEN "
        "CREATE INDEX other_k ON twin.other (k); END IF; END $$",
        "CREATE FUNCTION key(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS "
        "$$ BEGIN PERFORM twin.build_other(); RETURN -$1; END $$",
        "CREATE INDEX h_k ON h (key(k))",
    )
    told = compare(twins, statements, built=2)
    assert sorted(told.indexes) == ["h_k", "other_k"]


@pytest.mark.parametrize("row", [1, 1500, 3000])
def test_key_function_that_throws(twins: Twins, row: int) -> None:
    statements = (
        *_ROWS,
        f"CREATE INDEX h_bad ON h ((1 / (substr(s, 2)::int - {row})))",
        f"CREATE INDEX h_part ON h (k) WHERE 1 / (substr(s, 2)::int - {row}) IS NOT NULL",
        "CREATE INDEX h_good ON h (k)",
    )
    told = compare(twins, statements, built=1, fails=["22012", "22012"], exactly=True)
    assert list(told.indexes) == ["h_good"]


def test_key_function_that_reads_tables(twins: Twins) -> None:
    statements = (
        *_ROWS,
        "CREATE FUNCTION looks(int) RETURNS bigint LANGUAGE sql IMMUTABLE AS "
        "'SELECT count(*) FROM twin.h WHERE k < $1 / 100'",
        "DELETE FROM h WHERE k > 100",
        "CREATE INDEX h_l ON h (looks(k), s)",
    )
    compare(twins, statements, built=1)


def _class_of_name(function: str) -> tuple[str, ...]:
    """Names, of 64 bytes, in the order of a function that reads as much of them as it likes."""
    operators = ", ".join(
        f"OPERATOR {n} {sign}(name, name)" for n, sign in enumerate(("<", "<=", "=", ">=", ">"), 1)
    )
    return (
        f"CREATE OPERATOR CLASS name_part FOR TYPE name USING btree AS {operators}, "
        f"FUNCTION 1 (name, name) {function}",
        "CREATE OPERATOR CLASS low_half FOR TYPE int8 USING btree AS OPERATOR 1 <, OPERATOR 2 <=, "
        "OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 (int8, int8) btint4cmp(int4, int4)",
    )


@pytest.mark.parametrize("copies", [1, 9, 32])
def test_comparison_of_another_type(twins: Twins, copies: int) -> None:
    """A function may be for values of another size than those of the operator class's type."""
    statements = (
        "CREATE TABLE h (n name, a int8, b int8, c int8, d int8, e int8, f int8, g int8)",
        "INSERT INTO h SELECT 'x', 1, 1, 1, 1, 1, i * 7919 % 1000, "
        "CASE WHEN i % 2 = 0 THEN NULL ELSE 0 END FROM generate_series(1, 1000) i",
        *_class_of_name("uuid_cmp(uuid, uuid)"),
        f"CREATE INDEX h_n ON h ({', '.join(['n name_part'] * copies)})",
        "CREATE INDEX h_all ON h (n name_part, a, b, c, d, e, f, g)",
        "CREATE INDEX h_later ON h (f, n name_part, g)",
        "CREATE INDEX h_half ON h ((f + (g << 40)) low_half, a)",
    )
    compare(twins, statements)
