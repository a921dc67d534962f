"""What the catalogs say of the tables, indexes and columns that a plan reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lookahead.check.plan_tree import Participation

Place = Literal["shared buffers", "OS cache", "disk"]
Name = tuple[str, str]

# Of a table; the rest is what others have read since.
_CACHED_SHARE = 0.95
_BLOCK_BYTES = 8192


@dataclass(frozen=True)
class Relation:
    """A table; sizes in bytes. `cached_bytes` is None where pg_buffercache cannot be asked."""

    pages: int
    rows: float
    all_visible_pages: int
    size_bytes: int
    cached_bytes: int | None

    @property
    def is_cached(self) -> bool:
        """Whether it is known to be in shared buffers at the moment."""
        whole = self.pages * _BLOCK_BYTES
        return self.cached_bytes is not None and self.cached_bytes >= whole * _CACHED_SHARE


@dataclass(frozen=True)
class Index:
    """An index: its columns, of the table or its own (expressions), and its access method."""

    access_method: str
    columns: tuple["Column", ...]


@dataclass(frozen=True)
class Column:
    """Statistics of a column; None without them. `distinct` is the number of its values."""

    name: str
    correlation: float | None
    distinct: float | None


@dataclass(frozen=True)
class Memory:
    """What the server's settings say of memory, in bytes."""

    shared_buffers: int
    effective_cache_size: int

    @property
    def buffers(self) -> int:
        """Pages that shared buffers hold."""
        return self.shared_buffers // _BLOCK_BYTES

    def place_of(self, relation: Relation) -> Place:
        """The fastest place that the table as a whole fits into."""
        if relation.size_bytes <= self.shared_buffers:
            return "shared buffers"
        return "OS cache" if relation.size_bytes <= self.effective_cache_size else "disk"


@dataclass(frozen=True)
class Facts:
    """Tables and indexes by (schema, name); columns of tables by name within these."""

    memory: Memory
    relations: Mapping[Name, Relation]
    indexes: Mapping[Name, Index] = field(default_factory=dict)
    columns: Mapping[Name, Mapping[str, Column]] = field(default_factory=dict)
    participation: Participation = field(default_factory=Participation)
