"""Inserts of few rows about which there is much to find out before rows may wait.

What their rows could call is looked at when they are planned, when the 33rd row comes, or before
the first row of a COPY: types and constraints. Only a COPY of 500 has rows enough to gain, by how
its lines are read.
"""

from dataclasses import replace

from lookahead_bench.control_shape import INDEX_SCANS, LOG, ROW, Shape

_SETTINGS = INDEX_SCANS | {"pg_lookahead.enable_bulk_insert": "on"}
_DOMAINS, _CHECKS = 60, 20
_COPIED_ONE, _COPIED, _COPIED_LINES = 1, 10, 500
_OFTEN = 500
_NUMBERS = ", ".join(f"c{number} control_domain_{number}" for number in range(_DOMAINS))
_DOMAIN_TABLE = (
    f"DO $do$ BEGIN FOR number IN 0 .. {_DOMAINS - 1} LOOP EXECUTE format("
    "'CREATE DOMAIN control_domain_%s AS int', number); END LOOP; END $do$",
    f"CREATE TABLE control_domains ({_NUMBERS})",
)
_CHECKED_TABLE = (
    "CREATE TABLE control_checked (id int, k int, pad text, "
    + ", ".join(f"CHECK (id + k >= -{number})" for number in range(_CHECKS))
    + ")",
)
_PLANNED = (
    "EXECUTE 'INSERT INTO control_log SELECT i, i % 7, md5(i::text) FROM generate_series(1, 60) i'"
)
_CALLS = 60
_CALLED = (
    "EXECUTE 'INSERT INTO control_log VALUES "
    + ", ".join(f"({number}, control_given({number}, 1))" for number in range(_CALLS))
    + "'"
)
# It leaves out the arguments that it does not look at.
_GIVEN = (
    "CREATE FUNCTION control_given(int, int, int DEFAULT 5, int DEFAULT 6) RETURNS int IMMUTABLE "
    "STRICT LANGUAGE internal AS 'int4pl'"
)
_PARTITIONS = 100
_PARTS = (
    "CREATE TABLE control_parts (id int, k int, pad text) PARTITION BY HASH (id)",
    f"DO $do$ BEGIN FOR number IN 0 .. {_PARTITIONS - 1} LOOP EXECUTE format("
    "'CREATE TABLE control_parts_%s PARTITION OF control_parts FOR VALUES WITH "
    f"(MODULUS {_PARTITIONS}, REMAINDER %s)', number, number); END LOOP; END $do$",
)


def in_function(name: str, body: str, setup: tuple[str, ...] = ()) -> Shape:
    """A statement that calls a PL/pgSQL function, whose statements are cached like its own."""
    function = f"control_{name.replace('-', '_')}_of"
    definition = (
        f"CREATE FUNCTION {function}(wanted int) RETURNS bigint LANGUAGE plpgsql "
        f"AS $function$ {body} $function$"
    )
    return Shape(
        name,
        (f"SELECT {function}(:key)",),
        _OFTEN,
        (*ROW, *setup, definition),
        ("Result",),
        INDEX_SCANS,
    )


def _inserting(name: str, statement: str, table: str, setup: tuple[str, ...]) -> Shape:
    """A function with one statement that puts rows into a table."""
    shape = in_function(name, f"BEGIN {statement}; RETURN wanted; END", setup)
    return replace(shape, settings=_SETTINGS, reset=f"TRUNCATE {table}")


def _copy(
    rows: int, kind: str, table: str, setup: tuple[str, ...], options: str = "", quotes: str = ""
) -> Shape:
    """A COPY of so many rows; `kind` is a part of the name, `quotes` an option of the file."""
    file = f"control_rows_{kind}{rows}"
    # A relative name is for reading only.
    writing = (
        "DO $do$ BEGIN EXECUTE format('COPY (SELECT id, k, pad FROM control_row ORDER BY id "
        f"LIMIT {rows}) TO %L {options[:-1]}{quotes}{options[-1:]}', "
        f"current_setting('data_directory') || '/{file}'); END $do$"
    )
    reading = f"COPY {table} FROM '{file}' {options}"
    return _inserting(f"copy-{kind}{rows}", reading, table, (writing, *setup))


# EXECUTE plans a statement each time.
JUDGED_SHAPES = (
    _inserting(
        f"insert-domains-{_DOMAINS}",
        f"EXECUTE 'INSERT INTO control_domains SELECT {', '.join(['id'] * _DOMAINS)} "
        "FROM control_row WHERE id = $1' USING wanted",
        "control_domains",
        _DOMAIN_TABLE,
    ),
    Shape(
        "insert-checked-40",
        (
            "INSERT INTO control_checked SELECT id, k, pad FROM control_row WHERE id BETWEEN "
            ":key AND :key + 39",
        ),
        _OFTEN,
        (*ROW, *_CHECKED_TABLE),
        ("Index Scan",),
        _SETTINGS,
        reset="TRUNCATE control_checked",
    ),
    _inserting("insert-planned-60", _PLANNED, "control_log", LOG),
    _inserting(f"insert-defaults-{_CALLS}", _CALLED, "control_log", (*LOG, _GIVEN)),
    # What a session remembers of types ends with each table that anybody makes.
    _inserting(
        "insert-beside-new-table-60",
        f"CREATE TEMPORARY TABLE control_passing (id int); DROP TABLE control_passing; {_PLANNED}",
        "control_log",
        LOG,
    ),
    _copy(_COPIED_ONE, "", "control_log", LOG),
    _copy(_COPIED_ONE, "partitions-", "control_parts", _PARTS),
    _copy(_COPIED, "", "control_log", LOG),
    _copy(_COPIED, "checked-", "control_checked", _CHECKED_TABLE),
    _copy(_COPIED_LINES, "", "control_log", LOG),
    _copy(_COPIED_LINES, "quoted-", "control_log", LOG, "(FORMAT csv)", ", FORCE_QUOTE *"),
)
