"""What is indexed: the keys by name, the table that has them, the conditions of a build.

`lookahead_build` has a column for every key; its values follow from the row's number and the seed,
so that any order but the table's own is random.
"""

from dataclasses import dataclass

from lookahead.experiments.experiment import memory_label
from lookahead.measurements import Factor, Scenario

TABLE, INDEX = "lookahead_build", "lookahead_built"
COLUMNS = "id int NOT NULL, few int, random bigint, many int, at timestamptz, token uuid, name text"
# Row with header, line pointer and alignment; and the largest index on it.
ROW_BYTES = 140
INDEX_ROW_BYTES = 40


@dataclass(frozen=True)
class BuildKey:
    """`definition` is what CREATE INDEX says in parentheses."""

    name: str
    definition: str
    unique: bool = False

    @property
    def build(self) -> str:
        return self.create

    @property
    def create(self) -> str:
        unique = "UNIQUE " if self.unique else ""
        return f"CREATE {unique}INDEX {INDEX} ON {TABLE} ({self.definition})"

    @property
    def drop(self) -> str:
        return f"DROP INDEX {INDEX}"


_ALL = (
    BuildKey("int-sorted", "id"),
    BuildKey("int-reverse", "id DESC"),
    BuildKey("bigint-random", "random"),
    BuildKey("int-few", "few"),
    BuildKey("int-many", "many"),
    BuildKey("timestamptz", "at"),
    BuildKey("uuid", "token"),
    BuildKey("text-c", 'name COLLATE "C"'),
    BuildKey("int-text", 'few, name COLLATE "C"'),
    BuildKey("unique", "id", unique=True),
)
KEYS = {key.name: key for key in _ALL}


@dataclass(frozen=True)
class Conditions:
    """Under what an index is built; `memory_kb` is maintenance_work_mem."""

    key: BuildKey
    rows: int
    workers: int
    memory_kb: int

    @property
    def scenario(self) -> Scenario:
        return Scenario(
            (
                Factor("key", self.key.name),
                Factor("workers", str(self.workers)),
                Factor("memory", memory_label(self.memory_kb)),
                Factor("rows", f"{self.rows:,}"),
            )
        )

    def settings(self) -> dict[str, str]:
        """Of the session that builds; tables have workers whatever their size, if any.

        Where max_parallel_maintenance_workers is 0, PostgreSQL builds in both arms.
        """
        return {
            "maintenance_work_mem": f"{self.memory_kb}kB",
            "max_parallel_maintenance_workers": str(self.workers or 1),
            "min_parallel_table_scan_size": "0" if self.workers else "1TB",
        }


_HASH = "(hashint8extended(i, {seed} + {salt}) & 9223372036854775807)"


def fill_statement(rows: int, seed: int) -> str:
    """What fills `lookahead_build`."""
    few, many, at, name = (_HASH.format(seed=seed, salt=salt) for salt in range(1, 5))
    return (
        f"INSERT INTO {TABLE} SELECT i, {few} % 201, hashint8extended(i, {seed}), "
        f"{many} % {max(rows // 100, 1)}, "
        f"timestamptz '2020-01-01 00:00+00' + {at} % 150000000 * interval '1 s', "
        f"md5({seed} || ' ' || i)::uuid, 'user_' || lpad(({name} % 1000000000)::text, 9, '0') "
        f"FROM generate_series(1, {rows}) AS i"
    )
