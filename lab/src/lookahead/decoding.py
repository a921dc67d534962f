"""Turns parsed JSON back into the frozen dataclasses it was written from.

Missing fields without a default and wrongly typed ones are refused with their place, such as
`measurements.samples[3].evidence.rows`; nothing is guessed or converted, except that a JSON integer
may stand for a float. What fields have to do with each other a dataclass checks in `__post_init__`
(ValueError). Fields that a dataclass does not have are left out: another version has
written them.
"""

import dataclasses
import sys
import types
import typing
from typing import Any, TypeVar

T = TypeVar("T")
_SCALARS = (str, int, float, bool, type(None))
_MAX_INTEGER = 1 << 63
_LARGEST = {bool: 1, int: _MAX_INTEGER, float: sys.float_info.max}


class DecodingError(ValueError):
    """The JSON has another shape; the message begins with the place."""


def decode(kind: type[T], value: object, place: str = "") -> T:
    """An instance of dataclass `kind` from `value`; DecodingError when it does not fit."""
    return typing.cast(T, _decode(kind, value, place))


def _decode(kind: Any, value: object, place: str) -> object:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _decode_dataclass(kind, value, place)
    if kind in _SCALARS:
        return _decode_scalar(kind, value, place)
    if origin is typing.Literal:
        if value in arguments and type(value) in {type(choice) for choice in arguments}:
            return value
        raise DecodingError(f"{place}: {value!r} is none of {', '.join(map(repr, arguments))}")
    if origin in (types.UnionType, typing.Union):
        return _decode_union(arguments, value, place)
    if origin is tuple:
        return _decode_tuple(arguments, value, place)
    if origin is dict:
        if not isinstance(value, dict):
            raise DecodingError(f"{place}: expected an object")
        return {key: _decode(arguments[1], item, f"{place}.{key}") for key, item in value.items()}
    raise TypeError(f"results may not contain {kind!r}")


def _decode_dataclass(kind: type, value: object, place: str) -> object:
    if not isinstance(value, dict):
        raise DecodingError(f"{place or 'document'}: expected an object")
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    missing = [name for name in fields.keys() - value.keys() if is_required(fields[name])]
    if missing:
        raise DecodingError(f"{place or 'document'}: missing field {min(missing)!r}")
    prefix = f"{place}." if place else ""
    known = fields.keys() & value.keys()
    values = {name: _decode(hints[name], value[name], prefix + name) for name in known}
    try:
        return kind(**values)
    except ValueError as error:  # of __post_init__: what no type can say
        raise DecodingError(f"{place or 'document'}: {error}") from None


def is_required(field: "dataclasses.Field[Any]") -> bool:
    """Whether a field of a dataclass has no default."""
    return field.default is field.default_factory is dataclasses.MISSING


def _decode_scalar(kind: Any, value: object, place: str) -> object:
    if kind is float and type(value) is int and abs(value) <= _MAX_INTEGER:
        return float(value)
    if type(value) is not kind:
        raise DecodingError(f"{place}: expected {kind.__name__}, found {type(value).__name__}")
    if isinstance(value, int | float) and not abs(value) <= _LARGEST[kind]:
        raise DecodingError(f"{place}: the number is too large")
    return value


def _decode_union(arguments: tuple[Any, ...], value: object, place: str) -> object:
    """`X | None`, or else scalars and one tuple: JSON could not tell other members apart."""
    if value is None and type(None) in arguments:
        return None
    members = [member for member in arguments if member is not type(None)]
    if len(members) == 1:
        return _decode(members[0], value, place)
    if not all(member in _SCALARS or typing.get_origin(member) is tuple for member in members):
        raise TypeError(f"results may not contain a union of {arguments!r}")
    for member in members:
        if type(value) is (member if member in _SCALARS else list):
            return _decode(member, value, place)
    raise DecodingError(f"{place}: {type(value).__name__} was not expected")


def _decode_tuple(arguments: tuple[Any, ...], value: object, place: str) -> object:
    """`tuple[X, ...]` only."""
    if len(arguments) != 2 or arguments[1] is not Ellipsis:
        raise TypeError("results may only contain tuples of one type and any length")
    if not isinstance(value, list):
        raise DecodingError(f"{place}: expected a list")
    return tuple(_decode(arguments[0], item, f"{place}[{at}]") for at, item in enumerate(value))
