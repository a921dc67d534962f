"""The JSON Schema of result files, made from the dataclasses that they are written from.

Run as a program it writes the published one again:

    PYTHONPATH=lab/src:test/pytest python -m lab.result_schema
"""

import dataclasses
import inspect
import json
import types
import typing
from pathlib import Path
from typing import Any

from lookahead.decoding import is_required
from lookahead.results import SCHEMA_VERSION, ResultDocument

PUBLISHED = Path(__file__).parents[3] / "docs/result-schema.json"
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def json_schema(kind: type[Any]) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of what `decode` takes for the dataclass `kind`.

    Descriptions are the docstrings of the dataclasses. Fields of later versions are allowed.
    """
    definitions: dict[str, Any] = {}
    _describe(kind, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": f"#/$defs/{kind.__name__}",
        "$defs": dict(sorted(definitions.items())),
    }


def _describe(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; those of dataclasses are added to `definitions`."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}  # refers to itself, if it does
            definitions[kind.__name__] = _describe_dataclass(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if kind in _JSON_TYPES:
        return {"type": _JSON_TYPES[kind]}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_describe(member, definitions) for member in arguments]}
    if origin is tuple:
        return {"type": "array", "items": _describe(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _describe(arguments[1], definitions)}
    raise TypeError(f"results may not contain {kind!r}")


def _describe_dataclass(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    return {
        "type": "object",
        "description": inspect.getdoc(kind),
        "properties": {field.name: _describe(hints[field.name], definitions) for field in fields},
        "required": [field.name for field in fields if is_required(field)],
    }


def made_schema() -> str:
    """As the dataclasses are now."""
    title = {"title": f"Result file of lookahead, schema version {SCHEMA_VERSION}"}
    return json.dumps({**title, **json_schema(ResultDocument)}, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    PUBLISHED.write_text(f"{made_schema()}\n")
