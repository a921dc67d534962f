"""What the catalogs say about a table and its partitions, without the numbers that differ."""

from __future__ import annotations

import json
import re
from typing import Any

from extension.probes import Connection

# By catalog, the rows that belong to relations of the list, which is :relations, and the column
# that tells rows apart to a reader.
_ROWS = {
    "pg_class": "oid = ANY (%(relations)s)",
    "pg_attribute": "attrelid = ANY (%(relations)s)",
    "pg_attrdef": "adrelid = ANY (%(relations)s)",
    "pg_constraint": "conrelid = ANY (%(relations)s) OR confrelid = ANY (%(relations)s)",
    "pg_index": "indexrelid = ANY (%(relations)s)",
    "pg_inherits": "inhrelid = ANY (%(relations)s)",
    "pg_partitioned_table": "partrelid = ANY (%(relations)s)",
    "pg_trigger": "tgrelid = ANY (%(relations)s) OR tgconstrrelid = ANY (%(relations)s)",
    "pg_statistic_ext": "stxrelid = ANY (%(relations)s)",
    "pg_type": "typrelid = ANY (%(relations)s)"
    " OR typelem IN (SELECT oid FROM pg_type WHERE typrelid = ANY (%(relations)s))",
    "pg_policy": "polrelid = ANY (%(relations)s)",
    "pg_publication_rel": "prrelid = ANY (%(relations)s)",
    "pg_description": "objoid = ANY (%(relations)s) AND classoid = 'pg_class'::regclass",
    "pg_init_privs": "objoid = ANY (%(relations)s) AND classoid = 'pg_class'::regclass",
    "pg_seclabel": "objoid = ANY (%(relations)s) AND classoid = 'pg_class'::regclass",
    "pg_depend": "objid = ANY (%(objects)s) OR refobjid = ANY (%(objects)s)",
    "pg_shdepend": "objid = ANY (%(objects)s)"
    " AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())",
}
# The relations of a schema, with TOAST tables and their indexes, and what each is called.
_RELATIONS = """
    WITH own AS (SELECT c.oid, c.relname::text AS name, reltoastrelid FROM pg_class c
                 WHERE relnamespace = %s::regnamespace),
         toast AS (SELECT reltoastrelid AS oid, 'toast of ' || name AS name
                   FROM own WHERE reltoastrelid <> 0)
    SELECT oid::text, name FROM own
    UNION ALL SELECT oid::text, name FROM toast
    UNION ALL SELECT indexrelid::text, 'index of ' || name
              FROM toast JOIN pg_index ON indrelid = oid"""
_SCHEMA = """
    SELECT oid::text FROM pg_namespace WHERE nspname = %(schema)s
    UNION ALL SELECT oid::text FROM pg_default_acl
        WHERE defaclnamespace = %(schema)s::regnamespace
    UNION ALL SELECT oid::text FROM pg_publication"""
_NAMES = """
    SELECT oid::text, 'type ' || typname FROM pg_type
        WHERE typrelid = ANY (%(relations)s) OR typelem IN
              (SELECT oid FROM pg_type WHERE typrelid = ANY (%(relations)s))
    UNION ALL SELECT oid::text, 'constraint ' || conname || ' of ' || conrelid::regclass
        || ' to ' || coalesce(nullif(confrelid, 0)::regclass::text, '') FROM pg_constraint
        WHERE conrelid = ANY (%(relations)s) OR confrelid = ANY (%(relations)s)
    UNION ALL SELECT oid::text, 'default ' || adnum || ' of ' || adrelid::regclass FROM pg_attrdef
        WHERE adrelid = ANY (%(relations)s)
    UNION ALL SELECT t.oid::text, 'trigger ' || regexp_replace(tgname, '\\d+$', '') || ' of '
        || tgrelid::regclass || ' for ' || coalesce(conrelid::regclass || ' ' || conname, '')
        || ' at ' || tgtype
        FROM pg_trigger t LEFT JOIN pg_constraint c ON c.oid = tgconstraint
        WHERE tgrelid = ANY (%(relations)s) OR tgconstrrelid = ANY (%(relations)s)
    UNION ALL SELECT oid::text, 'statistics ' || stxname FROM pg_statistic_ext
        WHERE stxrelid = ANY (%(relations)s)
    UNION ALL SELECT oid::text, 'policy ' || polname || ' of ' || polrelid::regclass FROM pg_policy
        WHERE polrelid = ANY (%(relations)s)
    UNION ALL SELECT oid::text, 'publication of ' || prrelid::regclass FROM pg_publication_rel
        WHERE prrelid = ANY (%(relations)s)"""
# What depends on the moment, or says where a file is.
_PASSING = {"relfilenode", "relfrozenxid", "relminmxid", "relpages", "reltuples"}
_NUMBER = re.compile(r"(?<![\w.])\d{5,10}(?![\w.])")


def read_catalogs(session: Connection, schema: str) -> list[str]:
    """A line for each row about the relations of a schema, sorted."""
    names: dict[str, str] = dict(session.execute(_RELATIONS, (schema,)).fetchall())
    relations = [int(number) for number in names]
    more: Any = session.execute(_NAMES, {"relations": relations}).fetchall()
    names |= dict(more)
    for (number,) in session.execute(_SCHEMA, {"schema": schema}).fetchall():
        names[number] = "of the schema"
    asked = {"relations": relations, "objects": [int(n) for n in names]}
    lines = []
    for catalog, condition in _ROWS.items():
        query: Any = f"SELECT to_jsonb(c) FROM {catalog} c WHERE {condition}"
        for (row,) in session.execute(query, asked).fetchall():
            lines.append(f"{catalog} {_render(row, names)}")
    return sorted(lines)


def read_dump(text: str) -> list[str]:
    """The lines of pg_dump's output that do not differ from call to call."""
    return [line for line in text.splitlines() if not re.match(r"\\(un)?restrict ", line)]


def _render(row: dict[str, Any], names: dict[str, str]) -> str:
    kept = {key: value for key, value in row.items() if key not in _PASSING}
    text = json.dumps(kept, sort_keys=True)
    text = re.sub(r"(pg_toast_|ConstraintTrigger_(?:[ac]_)?)\d+", r"\1", text)
    return _NUMBER.sub(lambda match: names.get(match[0], match[0]), text)
