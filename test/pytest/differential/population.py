"""SQL that creates and fills a random table and then leaves it in a used state.

The used state is what a look-ahead must not trip over: HOT chains, rows dead to
everyone, index entries of aborted transactions, line pointers that were reused, row
locks, and items that an earlier scan has already marked dead.
"""

from __future__ import annotations

from differential.schema import Column, Table


def definition(table: Table) -> list[str]:
    """CREATE statements of the table, its parts and its indexes."""
    columns = [
        "id int4 NOT NULL",
        *(f"{c.name} {c.type}" for c in table.columns),
        "payload int4",
        "pad text",
    ]
    if table.dropped_columns:
        columns.insert(1, "gone text DEFAULT 'gone'")
    body = ", ".join(columns)
    persistence = f"{table.persistence} " if table.persistence else ""
    options = f" WITH (fillfactor = {table.fillfactor})"
    if table.shape == "partitioned":
        statements = _partitions(table, persistence, body, options)
    elif table.shape == "inherited":
        statements = [
            f"CREATE {persistence}TABLE {table.name} ({body}){options}",
            f"CREATE {persistence}TABLE {table.name}_a (extra int4) "
            f"INHERITS ({table.name}){options}",
            f"CREATE {persistence}TABLE {table.name}_b () INHERITS ({table.name}){options}",
        ]
    else:
        statements = [f"CREATE {persistence}TABLE {table.name} ({body}){options}"]
    if table.dropped_columns:
        statements.append(f"ALTER TABLE {table.name} DROP COLUMN gone")
    return statements


def _partitions(table: Table, persistence: str, body: str, options: str) -> list[str]:
    """Four parts by ranges of id; one has its columns in another order."""
    step = max(table.rows // 3, 1)
    shuffled = ", ".join(reversed(body.split(", ")))
    parent = "TEMPORARY " if table.is_temporary else ""
    statements = [f"CREATE {parent}TABLE {table.name} ({body}) PARTITION BY RANGE (id)"]
    for number, bounds in enumerate((f"MINVALUE) TO ({step}", f"{step}) TO ({2 * step}")):
        part = f"{table.name}_p{number}"
        statements.append(
            f"CREATE {persistence}TABLE {part} PARTITION OF {table.name} "
            f"FOR VALUES FROM ({bounds}){options}"
        )
    statements += [
        f"CREATE {persistence}TABLE {table.name}_p2 ({shuffled}){options}",
        f"ALTER TABLE {table.name} ATTACH PARTITION {table.name}_p2 "
        f"FOR VALUES FROM ({2 * step}) TO (MAXVALUE)",
    ]
    return statements


def index_definitions(table: Table) -> list[str]:
    """CREATE INDEX for the table and, where they do not follow, for its children."""
    statements = [index.create(table.name) for index in table.indexes]
    if table.gist:
        statements.append(
            f"CREATE INDEX {table.name}_gist ON {table.name} USING gist (point(id, payload))"
        )
    if table.gin:
        statements.append(
            f"CREATE INDEX {table.name}_gin ON {table.name} USING gin ((ARRAY[id % 40, -payload]))"
        )
    if table.shape == "inherited":
        for child in ("a", "b"):
            for index in table.indexes:
                own = index.create(f"{table.name}_{child}")
                statements.append(
                    own.replace(f"INDEX {index.name} ", f"INDEX {index.name}_{child} ")
                )
    return statements


def _select_rows(table: Table, first: int, rows: int, columns: tuple[Column, ...]) -> str:
    values = ", ".join(column.value(max(table.rows, 1)) for column in columns)
    pad = f"left(repeat(md5(i::text), {table.pad_bytes // 32 + 1}), {table.pad_bytes})"
    return f"SELECT i, {values}, i % 7, {pad} FROM generate_series({first}, {first + rows - 1}) i"


def _insert(table: Table, target: str, first: int, rows: int) -> str:
    names = ", ".join(column.name for column in table.columns)
    selected = _select_rows(table, first, rows, table.columns)
    return f"INSERT INTO {target} (id, {names}, payload, pad) {selected}"


def fill(table: Table) -> list[str]:
    """INSERT statements for all rows; inheritance spreads them over the children."""
    if table.rows == 0:
        return []
    if table.shape != "inherited":
        return [_insert(table, table.name, 0, table.rows)]
    third = max(table.rows // 3, 1)
    statements = [_insert(table, table.name, 0, third)]
    statements.append(_insert(table, f"{table.name}_a", third, third))
    statements.append(_insert(table, f"{table.name}_b", 2 * third, max(table.rows - 2 * third, 1)))
    return statements


def churn(table: Table) -> list[str]:
    """Statements (each its own transaction) that wear the table, in the chosen order."""
    statements: list[str] = []
    for number, step in enumerate(table.churn):
        statements += _churn_step(table, step, number)
    return statements


def _churn_step(table: Table, step: str, number: int) -> list[str]:
    name, rows = table.name, max(table.rows, 4)
    column = table.columns[number % len(table.columns)].name
    other = table.columns[(number + 1) % len(table.columns)]
    spare = rows + 1000 * (number + 1)
    steps = {
        "hot_update": [f"UPDATE {name} SET payload = payload + 1 WHERE id % 3 = {number % 3}"] * 2,
        "key_update": [f"UPDATE {name} SET {other.name} = {column} WHERE id % 4 = 1"]
        if other.type == next(c.type for c in table.columns if c.name == column)
        and other.name != column
        else [f"UPDATE {name} SET {column} = NULL WHERE id % 11 = {number}"],
        "delete_some": [f"DELETE FROM {name} WHERE id % 5 = {number % 5}"],
        "delete_range": [f"DELETE FROM {name} WHERE id BETWEEN {rows // 4} AND {rows // 2}"],
        "aborted_insert": [f"BEGIN; {_insert(table, name, spare, rows // 3)}; ROLLBACK"],
        "aborted_update": [
            f"BEGIN; UPDATE {name} SET {column} = NULL, payload = -1 WHERE id % 2 = 0; ROLLBACK"
        ],
        "vacuum": [f"VACUUM {name}"],
        "refill": [f"DELETE FROM {name} WHERE id < {rows // 5}", f"VACUUM {name}"]
        + ([_insert(table, name, 0, rows // 5)] if table.rows else []),
        "lock_rows": [
            f"BEGIN; SELECT 1 FROM {name} WHERE id % 6 = 0 FOR KEY SHARE; SAVEPOINT s; "
            f"UPDATE {name} SET payload = payload WHERE id % 12 = 0; COMMIT"
        ],
        "set_hints": [
            "BEGIN; SET LOCAL pg_lookahead.enabled = off; SET LOCAL enable_seqscan = off; "
            "SET LOCAL enable_bitmapscan = off; "
            f"SELECT count(payload) FROM {name} WHERE id >= 0; COMMIT"
        ],
    }
    return steps[step]


def build(table: Table) -> list[str]:
    """All statements that bring the table into being, ready for queries."""
    before, after = (
        (index_definitions(table), []) if table.fillfactor < 100 else ([], index_definitions(table))
    )
    return [
        *definition(table),
        *before,
        *fill(table),
        *after,
        *churn(table),
        f"ANALYZE {table.name}",
    ]
