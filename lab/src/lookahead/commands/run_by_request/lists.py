"""Options whose value is a list: separated by commas, given once or several times."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from lookahead.commands.options import CommandT

ValueT = TypeVar("ValueT")


class CommaList(click.ParamType[tuple[Any, ...]]):
    """A list of `item`; the value becomes a tuple, of each item once."""

    name = "list"

    def __init__(self, item: click.ParamType[Any]) -> None:
        self._item = item

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Any, ...]:
        if isinstance(value, tuple):
            return value
        words = [word.strip() for word in str(value).split(",")]
        return tuple(dict.fromkeys(self._item.convert(word, param, ctx) for word in words))


def list_option(
    flag: str, name: str, item: click.ParamType[Any], metavar: str, help_text: str
) -> Callable[[CommandT], CommandT]:
    """An option that takes a list; its parameter is a tuple of tuples, see `joined`."""
    return click.option(
        flag, name, type=CommaList(item), multiple=True, metavar=metavar, help=help_text
    )


def joined(lists: Sequence[Sequence[ValueT]]) -> tuple[ValueT, ...] | None:
    """All values of an option once; None when it was not given."""
    return tuple(dict.fromkeys(value for values in lists for value in values)) or None


class MemorySize(click.ParamType[str]):
    """A size as PostgreSQL writes it, such as 4MB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        number, unit = text[:-2], text[-2:]
        if unit not in ("kB", "MB", "GB") or not number.isdecimal() or int(number) == 0:
            self.fail(f"{text!r} is not a size such as 4MB or 512kB", param, ctx)
        return f"{int(number)}{unit}"


class Percent(click.ParamType[float]):
    """A share in percent, above 0 and up to 100; the value is 0..1."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not 0.0 < number <= 100.0:
            self.fail(f"{value!r} is not a percentage above 0 and up to 100", param, ctx)
        return round(number / 100, 9)
