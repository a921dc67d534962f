"""Finds an object of an extension by what the extension owns, never by its name alone."""

from dataclasses import dataclass
from typing import Any, Literal

import psycopg

# `identity` and `schema` are quoted as SQL wants them.
_MEMBER = """
    SELECT member.objid, object.schema
    FROM pg_catalog.pg_extension extension
    JOIN pg_catalog.pg_depend member
      ON member.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
     AND member.refobjid = extension.oid AND member.deptype = 'e',
    LATERAL pg_catalog.pg_identify_object(member.classid, member.objid, 0) AS object
    WHERE extension.extname = %s AND object.type = %s
      AND object.identity = object.schema || '.' || %s"""


@dataclass(frozen=True)
class Member:
    """An object of an extension; `schema` is ready to stand in a statement with parameters."""

    oid: int
    schema: str


def find_member(
    connection: psycopg.Connection[Any],
    extension: str,
    kind: Literal["function", "view"],
    identity: str,
) -> Member | None:
    """The extension's object with this identity, without its schema; None where there is none.

    A function's has the qualified types of its arguments, such as "name(pg_catalog.regclass)".
    """
    row = connection.execute(_MEMBER, (extension, kind, identity)).fetchone()
    return Member(row[0], row[1].replace("%", "%%")) if row else None
