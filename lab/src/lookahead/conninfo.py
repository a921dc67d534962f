"""Connection strings as they may be shown and kept: without what opens a door.

Only what names the place is kept; so a secret that a later libpq takes is not kept either. A
password that was not quoted as it should be (an "@" or "/" in a URL, a space) ends up in other
parts, or in what libpq says of it: then nothing is shown.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

_PLACE = ("host", "hostaddr", "port", "dbname", "user", "service")
_HIDDEN = "(a connection string that is not shown)"
_OPTION = "--dsn"


def shown_dsn(dsn: str) -> str:
    """The place that the string names, again as a connection string."""
    parts = _parse(dsn)
    if parts is None:
        return _HIDDEN
    place = {name: str(parts[name]) for name in _PLACE if parts.get(name)}
    return _HIDDEN if _is_doubtful(place) else make_conninfo(**place)


def shown_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """A command line whose connection strings are as `shown_dsn` has them."""
    return tuple(_shown_arguments(arguments))


def shown_error(dsn: str, error: psycopg.Error) -> str:
    """What libpq says of a connection, unless that might quote a part of a password."""
    return "the reason could quote a password" if shown_dsn(dsn) == _HIDDEN else str(error).strip()


def _shown_arguments(arguments: Sequence[str]) -> Iterator[str]:
    previous = ""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if previous == _OPTION or _has_secret(argument):
            yield shown_dsn(argument)
        elif name == _OPTION and equals:
            yield f"{_OPTION}={shown_dsn(value)}"
        else:
            yield argument
        previous = argument


def _has_secret(argument: str) -> bool:
    """Whether it is a connection string with more than a place, wherever it stands."""
    parts = _parse(argument)
    return parts is not None and not parts.keys() <= set(_PLACE)


def _parse(dsn: str) -> dict[str, Any] | None:
    try:
        return conninfo_to_dict(dsn)
    except (psycopg.Error, UnicodeError):
        return None


def _is_doubtful(place: dict[str, str]) -> bool:
    """Whether a value looks like a part of a URL or of another string."""
    if not place.get("port", "").replace(",", "").isdecimal() and "port" in place:
        return True
    return any(mark in value for value in place.values() for mark in ("@", "=", "://"))
