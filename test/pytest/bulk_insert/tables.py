"""Random tables to insert into: constraints, indexes, triggers, and what was there before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from bulk_insert.columns import KEY, Column, random_columns
from bulk_insert.partitions import Partitions, parent_persistence, random_partitions

TABLE = "t"
LOG = "log"
# A page without a fillfactor has room for some 226 of the shortest rows with a key.
_ROW_COUNTS = (0, 1, 2, 15, 16, 17, 33, 100, 226, 227, 1000, 3000)
_BYTES = 1_500_000  # of one insert at most: with what was there before no more than 4 MB
_PERSISTENCE = ("", "", "", "UNLOGGED ", "TEMPORARY ")

# Whoever logs is called once for each row or statement, and takes the next number.
_LOG = (
    f"CREATE TABLE {LOG} (number serial, who text, key int)",
    f"CREATE FUNCTION note_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    f"INSERT INTO {LOG} (who, key) VALUES (TG_NAME, NEW.{KEY}); RETURN NULL; END $$",
    f"CREATE FUNCTION note_statement() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    f"INSERT INTO {LOG} (who, key) SELECT TG_NAME, count(*) FROM {TABLE}; RETURN NULL; END $$",
)
_TRIGGERS = (
    f"CREATE TRIGGER a AFTER INSERT ON {TABLE} FOR EACH ROW EXECUTE FUNCTION note_row()",
    f"CREATE TRIGGER b AFTER INSERT ON {TABLE} FOR EACH ROW WHEN (NEW.{KEY} % 3 = 0) "
    "EXECUTE FUNCTION note_row()",
    f"CREATE CONSTRAINT TRIGGER c AFTER INSERT ON {TABLE} DEFERRABLE INITIALLY DEFERRED "
    "FOR EACH ROW EXECUTE FUNCTION note_row()",
    f"CREATE TRIGGER d AFTER INSERT ON {TABLE} EXECUTE FUNCTION note_statement()",
    f"CREATE TRIGGER e BEFORE INSERT ON {TABLE} EXECUTE FUNCTION note_statement()",
)
_CONSTRAINTS = (
    f"ADD PRIMARY KEY ({KEY})",
    f"ADD UNIQUE ({KEY}) DEFERRABLE INITIALLY DEFERRED",
    f"ADD UNIQUE ({KEY}) DEFERRABLE INITIALLY IMMEDIATE",
    f"ADD CONSTRAINT positive CHECK ({KEY} > -1000000)",
    f"ADD CONSTRAINT own CHECK (tableoid = '{TABLE}'::regclass)",
    f"ALTER {KEY} SET NOT NULL",
    f"ADD EXCLUDE USING gist (int4range({KEY}, {KEY}, '[]') WITH &&)",
    f"ADD FOREIGN KEY ({KEY}) REFERENCES parent",
    f"ADD FOREIGN KEY ({KEY}) REFERENCES parent DEFERRABLE INITIALLY DEFERRED",
)
_UNIQUE = ("PRIMARY", "UNIQUE", "EXCLUDE")
# What no partition, or no table that is partitioned by an expression, can have.
_NOT_PARTITIONED = ("tableoid", "EXCLUDE")
_PARTITIONED = 0.35
_HIGHEST_PARENT = 20_000


@dataclass(frozen=True)
class Table:
    """`making` creates it and what it refers to; `rows` is how many an insert of it has."""

    columns: Sequence[Column]
    persistence: str
    making: Sequence[str]
    rows: int
    has_room: bool  # on pages before the last
    unique: bool  # is there a constraint that no key comes twice?
    partitioned: bool

    @property
    def in_order(self) -> bool:
        """Are rows put one after the other, whoever does it?

        Where they are of several lengths, a page that had no room for one may have it for another;
        a partition may get some of its rows on pages of ours and some on others.
        """
        return not (self.has_room or self.partitioned) and all(
            column.is_fixed for column in self.columns
        )

    @property
    def numbered(self) -> bool:
        """Does a sequence number the rows? Of rows that wait when an insert fails, too."""
        return any(
            word in column.definition for column in self.columns for word in ("nextval", "IDENTITY")
        )

    @property
    def inserted(self) -> list[Column]:
        """The columns that get a value."""
        return [column for column in self.columns if column.value is not None]


def random_table(rng: Random, compressions: Sequence[str]) -> Table:
    columns = random_columns(rng, compressions)
    persistence = rng.choice(_PERSISTENCE)
    options = _storage(rng)
    partitions = None
    if rng.random() < _PARTITIONED and len(columns) < 400:
        partitions = random_partitions(rng, TABLE, columns, persistence, options)
    referring = parent_persistence(persistence) if partitions else persistence
    parent = f"CREATE {referring}TABLE parent (id int PRIMARY KEY)"
    making = [parent, f"INSERT INTO parent SELECT generate_series(0, {_HIGHEST_PARENT})", *_LOG]
    making += _definition(rng, columns, persistence, options, partitions)
    constraints = [
        text for text in _some(rng, _CONSTRAINTS, 0.12) if _is_possible(text, partitions)
    ]
    making += [f"ALTER TABLE {TABLE} {constraint}" for constraint in constraints]
    indexes = _indexes(rng, columns)
    making += indexes
    making += _some(rng, _TRIGGERS, 0.12)
    return Table(
        columns=columns,
        persistence=persistence,
        making=making,
        rows=_row_count(rng, columns),
        has_room=rng.random() < 0.2,
        unique=any(_UNIQUE[n] in text for text in constraints for n in range(len(_UNIQUE))),
        partitioned=partitions is not None,
    )


def _is_possible(constraint: str, partitions: Partitions | None) -> bool:
    if partitions is None:
        return True
    if any(word in constraint for word in _NOT_PARTITIONED):
        return False
    return not (partitions.by_expression and any(word in constraint for word in _UNIQUE))


def _storage(rng: Random) -> str:
    options = []
    if rng.random() < 0.3:
        options.append(f"fillfactor = {rng.choice((10, 11, 50, 90, 100))}")
    if rng.random() < 0.2:
        options.append(f"toast_tuple_target = {rng.choice((128, 512, 4080))}")
    return f" WITH ({', '.join(options)})" if options else ""


def _definition(
    rng: Random,
    columns: Sequence[Column],
    persistence: str,
    options: str,
    partitions: Partitions | None,
) -> list[str]:
    """Columns in one go, some of them after others that are dropped."""
    parts = [f"{column.name} {column.definition}" for column in columns]
    dropped = [f"dropped{n}" for n in range(rng.choice((0, 0, 0, 1, 3)))]
    if len(parts) > 1500:
        dropped = []
    for name in dropped:
        parts.insert(rng.randint(0, len(parts)), f"{name} {rng.choice(('int', 'text', 'name'))}")
    if partitions is not None:
        persistence, options = parent_persistence(persistence), partitions.clause
    statements = [
        "CREATE SEQUENCE numbers",
        f"CREATE {persistence}TABLE {TABLE} ({', '.join(parts)}){options}",
    ]
    statements += [f"ALTER TABLE {TABLE} DROP COLUMN {name}" for name in dropped]
    return statements if partitions is None else [*statements, *partitions.making]


def _indexes(rng: Random, columns: Sequence[Column]) -> list[str]:
    texts = [column.name for column in columns if column.is_text] or ["tableoid::text"]
    text = f"md5(coalesce({rng.choice(texts)}, ''))" if texts[0] != "tableoid::text" else KEY
    arrays = [column.name for column in columns if column.type == "int[]"]
    possible = [
        f"({KEY})",
        f"({KEY} DESC) INCLUDE ({columns[-1].name})"
        if columns[-1].value and len(columns) < 9
        else "",
        f"({text})",
        f"(abs({KEY}), {KEY}) WHERE {KEY} % 5 = 0",
        f"USING brin ({KEY}) WITH (pages_per_range = 2)",
        f"USING hash ({KEY})",
        f"USING gin ({arrays[0]})" if arrays else "",
    ]
    # Of a long text an index has no room for.
    chosen = [index for index in _some(rng, possible, 0.15) if index]
    chosen = [index for index in chosen if "INCLUDE" not in index or columns[-1].bytes < 1000]
    return [f"CREATE INDEX i{n} ON {TABLE} {index}" for n, index in enumerate(chosen)]


def _row_count(rng: Random, columns: Sequence[Column]) -> int:
    width = 24 + sum(column.bytes for column in columns)
    return min(rng.choice(_ROW_COUNTS), _BYTES // width)


def _some(rng: Random, possible: Sequence[str], share: float) -> list[str]:
    return [text for text in possible if rng.random() < share]
