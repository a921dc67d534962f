"""The ways in which an insert is executed, and what became of it.

The oracle is the arm `STOCK`. `ONE_PAGE` collects rows from the first one on and puts them where
stock would; `EXTENTS` puts them on pages of its own as soon as one is full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from extension.probes import Connection

SWITCH = "pg_lookahead.enable_bulk_insert"
_PREFIX = "pg_lookahead."
_DEFAULTS = {
    "enable_bulk_insert": "on",
    "bulk_extend_size": "512",
    "test_insert_single_rows": "-1",
    "test_insert_threshold": "-1",
    "test_insert_hand_back": "0",
}


@dataclass(frozen=True)
class Arm:
    """`settings` without the prefix of the library; the others have their defaults."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def statement(self) -> str:
        values = {**_DEFAULTS, **self.settings}
        return "; ".join(f"SET {_PREFIX}{name} = '{value}'" for name, value in values.items())

    @property
    def same_places(self) -> bool:
        """Are the rows where stock puts them, if they take less than 4 MB?"""
        return "test_insert_threshold" not in self.settings

    @property
    def hands_back(self) -> bool:
        """Is core to go on at some row?"""
        return self.settings.get("test_insert_hand_back", "0") != "0"

    def with_settings(self, **settings: object) -> Arm:
        added = {name: str(value) for name, value in settings.items()}
        return replace(self, settings={**self.settings, **added})


STOCK = Arm("stock", {"enable_bulk_insert": "off"})
DEFAULT = Arm("default")
ONE_PAGE = Arm("one page", {"test_insert_single_rows": "0"})
EXTENTS = Arm(
    "extents",
    {
        "test_insert_single_rows": "0",
        "test_insert_threshold": "0",
        "bulk_extend_size": "16",
    },
)


def choose(session: Connection, arm: Arm) -> None:
    """Let the session insert so from now on."""
    session.execute(arm.statement)


@dataclass(frozen=True)
class Counters:
    """Inserts of a session as `pg_stat_lookahead` counts them."""

    nodes: int
    rows: int
    batches: int
    extended: int
    left: Mapping[str, int]

    @classmethod
    def of(cls, session: Connection) -> Counters:
        row = session.execute(
            "SELECT nodes, batched_rows, batches, extended_blocks, fallbacks "
            "FROM pg_stat_lookahead WHERE feature = 'bulk_insert'"
        ).fetchone()
        assert row is not None, "pg_stat_lookahead has no row bulk_insert"
        nodes, rows, batches, extended, left = row
        fallbacks = {reason: int(count) for reason, count in left.items()}
        return cls(int(nodes), int(rows), int(batches), int(extended), fallbacks)
