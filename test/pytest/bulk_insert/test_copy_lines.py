"""Lines of a COPY FROM that are read without core's parser make the rows and errors of stock."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

import pytest
from extension.probes import Connection

from bulk_insert.arms import DEFAULT, EXTENTS, STOCK
from bulk_insert.copying import Case, run

# More than core reads at once, of a file and of the client's messages.
_BUFFER = 65536
_MAKING = "CREATE TABLE t (k int, s text, n numeric, c varchar(300), d date)"
_PLAIN = ("7", "text", "1.5", "x" * 30, "2001-02-03")


def _file(count: int, odd: str, every: int = 97) -> str:
    """Plain lines, and one of another kind among them again and again."""
    plain = "\t".join(_PLAIN) + "\n"
    return "".join(odd if number % every == every - 1 else plain for number in range(count))


# A line in the format text of five fields, which is read or is an error.
_TEXT_LINES = {
    "null": "1\t\\N\t2\t\\N\t\\N\n",
    "null and more": "1\t\\Na\t2\t\\N\t2001-01-01\n",
    "null escaped": "1\t\\\\N\t2\ta\\N\t2001-01-01\n",
    "null at the end": "1\tx\t2\tx\t\\N\n",
    "escapes": "1\ta\\tb\\nc\\\\d\\x41\\101\t2\tx\t2001-01-01\n",
    "escaped separator": "1\ta\\\tb\t2\tx\t2001-01-01\n",
    "escaped line end": "1\ta\\\nb\t2\tx\t2001-01-01\n",
    "empty fields": "1\t\t2\t\t2001-01-01\n",
    "letters": "1\tÄö𝄞 漢字\t2\té\t2001-01-01\n",
    "control characters": "1\t\x01\x0b\x7f\t2\t\x1f\t2001-01-01\n",
    "long": "1\t" + "y" * 90_000 + "\t2\tx\t2001-01-01\n",
    "spaces": " 1 \t  \t 2\tx \t 2001-01-01 \n",
    "too few": "1\tx\t2\tx\n",
    "too many": "1\tx\t2\tx\t2001-01-01\t\n",
    "no fields": "\n",
    "carriage return": "1\tx\t2\tx\t2001-01-01\r\n",
    "carriage return inside": "1\ta\rb\t2\tx\t2001-01-01\n",
    "no number": "1x\tx\t2\tx\t2001-01-01\n",
    "last is no date": "1\tx\t2\tx\tnever\n",
    "no number, long": "1" * 400 + "\tx\t2\tx\t2001-01-01\n",
    "too long": "1\tx\t2\t" + "x" * 301 + "\t2001-01-01\n",
    "end": "\\.\n",
    "end, not alone": "1\\.\n",
}
_CSV_LINES = {
    "quoted": '1,"a,b",2,"x",2001-01-01\n',
    "quotes inside": '1,a"b,c"d,2,"x""y",2001-01-01\n',
    "line in quotes": '1,"a\nb",2,x,2001-01-01\n',
    "nulls": "1,,,,\n",
    "quoted and empty": '1,"",2,"",2001-01-01\n',
    "backslash": "1,\\,2,\\.,2001-01-01\n",
    "end": "\\.\n",
    "too few": "1,x\n",
    "too many": "1,x,2,x,2001-01-01,\n",
    "carriage return": "1,x,2,x,2001-01-01\r\n",
    "no quote's end": '1,"x,2,x,2001-01-01\n',
    "no number": "1x,x,2,x,2001-01-01\n",
    "null that is refused": ",x,2,x,2001-01-01\n",
}


def _assert_same(session: Connection, case: Case) -> bool:
    """Whether it failed."""
    stock = run(session, STOCK, case)
    for arm in (DEFAULT, EXTENTS):
        ours = run(session, arm, case)
        assert (ours.outcome, ours.notices) == (stock.outcome, stock.notices)
        # Wide rows among narrow ones may share a page that they do not in stock.
        assert Counter(ours.rows) == Counter(stock.rows)
    return stock.failed


@pytest.mark.parametrize("name", _TEXT_LINES)
def test_a_line_of_text_among_plain_ones(connection: Connection, name: str) -> None:
    _assert_same(connection, Case(_MAKING, _file(3000, _TEXT_LINES[name])))


@pytest.mark.parametrize("name", _CSV_LINES)
def test_a_line_of_csv_among_plain_ones(connection: Connection, name: str) -> None:
    data = _file(3000, "\0").replace("\t", ",").replace("\0", _CSV_LINES[name])
    making = _MAKING.replace("k int", "k int NOT NULL")
    _assert_same(connection, Case(making, data, "(FORMAT csv)"))


def test_many_lines_of_each_kind_in_turn(connection: Connection) -> None:
    """After some that are not plain, lines are left to core without a look."""
    plain, odd = "1\ttext\n", "2\tan\\tescape\n"
    data = "".join((plain * plains) + (odd * odds) for plains in (1, 70, 500) for odds in (2, 200))
    assert not _assert_same(connection, Case("CREATE TABLE t (k int, s text)", data * 3))
    failing = Case("CREATE TABLE t (k int CHECK (k > 0), s text)", data + "0\tx\n" + data)
    assert _assert_same(connection, failing)


@dataclass(frozen=True)
class _Options:
    """What separates fields and says that a field is NULL."""

    text: str
    delimiter: str = "\t"
    null: str = "\\N"


_OPTIONS = {
    "text": _Options(""),
    "null": _Options("(NULL 'NIX')", null="NIX"),
    "empty null": _Options("(NULL '')", null=""),
    "null of a backslash": _Options("(NULL '\\')", null=""),
    "long null": _Options("(NULL 'a null of many letters')", null="a null of many letters"),
    "delimiter": _Options("(DELIMITER '|')", "|"),
    "delimiter of control": _Options("(DELIMITER E'\\x01')", "\x01"),
    "delimiter of digits": _Options("(FORMAT csv, DELIMITER '7')", "7", ""),
    "csv": _Options("(FORMAT csv)", ",", ""),
    "csv null": _Options("(FORMAT csv, NULL 'NIX')", ",", "NIX"),
    "csv quote": _Options("(FORMAT csv, QUOTE 'q')", ",", ""),
    "csv quote of line ends": _Options("(FORMAT csv, QUOTE E'\\n')", ",", ""),
    "csv quote of carriage returns": _Options("(FORMAT csv, QUOTE E'\\r')", ",", ""),
    "csv escape": _Options("(FORMAT csv, ESCAPE '+')", ",", ""),
    "csv header": _Options("(FORMAT csv, HEADER)", ",", ""),
    "default": _Options("(DEFAULT '@')"),
    "force null": _Options("(FORMAT csv, NULL 'x', FORCE_NULL *)", ",", "x"),
    "force not null": _Options("(FORMAT csv, FORCE_NOT_NULL (a))", ",", ""),
    "encoding": _Options("(ENCODING 'latin1')"),
}
_PIECES = ("a", "bc", "0", "42", "x", " ", ".", "N", "NIX", "ä", "lorem ipsum dolor sit amet")
_ODD_PIECES = (
    "\\N",
    "\\\\",
    "\\.",
    '"',
    '""',
    "\r",
    "\t",
    ",",
    "|",
    "\\t",
    "+",
    "\x01",
    "\\",
    "@",
    "q",
)
_ENDS = ("\n", "\n", "\n", "\r\n", "\r")


@pytest.mark.parametrize("name", _OPTIONS)
@pytest.mark.parametrize("columns", [1, 3, 40])
def test_random_lines(connection: Connection, name: str, columns: int, seed: int) -> None:
    """Some of the files are errors, most of them in lines that are not plain."""
    options, failed = _OPTIONS[name], 0
    names = [f"{chr(97 + n % 26)}{n // 26 or ''}" for n in range(columns)]
    making = f"CREATE TABLE t ({', '.join(f'{each} text' for each in names)})"
    for number in range(12):
        rng = Random(f"{seed} {name} {columns} {number}")
        oddness = rng.choice((0.0, 0.0, 0.001, 0.02))
        end = rng.choice(_ENDS)
        lines = [_line(rng, options, columns, oddness) for _ in range(rng.choice((3, 900)))]
        data = end.join(lines) + rng.choice(("", end))
        encoded = data.encode("latin-1" if name == "encoding" else "utf-8")
        failed += _assert_same(connection, Case(making, encoded, options.text))
    assert failed < 12


def _line(rng: Random, options: _Options, columns: int, oddness: float) -> str:
    fields = [_field(rng, options, oddness) for _ in range(columns)]
    if rng.random() < oddness / 9:
        fields.append("more")
    return options.delimiter.join(fields)


def _field(rng: Random, options: _Options, oddness: float) -> str:
    if rng.random() < 0.1:
        return options.null
    return "".join(
        rng.choice(_ODD_PIECES if rng.random() < oddness else _PIECES)
        for _ in range(rng.randrange(5))
    )


@pytest.mark.parametrize("options", ["", "(FORMAT csv, DELIMITER E'\\t')"])
@pytest.mark.parametrize("last", ["\n", ""])
def test_ends_of_what_is_read_at_once(connection: Connection, options: str, last: str) -> None:
    """Lines, fields and letters of two bytes end before, at and after each end of a buffer."""
    making = "CREATE TABLE t (k int, s text)"
    for shift in range(40):
        line = f"{shift}\t{'ä' * 500}\n"
        count = 2 * _BUFFER // len(line.encode()) + 3
        data = f"1\t{'x' * shift}\n" + line * count
        assert not _assert_same(connection, Case(making, data.rstrip("\n") + last, options))


@pytest.mark.parametrize("name", ["latin1", "sjis"])
def test_what_is_converted(connection: Connection, name: str) -> None:
    """A byte of a letter of two can be a backslash before it is converted."""
    text = {"latin1": "Größe", "sjis": "表ソ"}[name]
    encoding = {"latin1": "latin-1", "sjis": "shift_jis"}[name]
    data = "".join(f"{k}\t{text} {k}\n" for k in range(9000)).encode(encoding)
    case = Case("CREATE TABLE t (k int, s text)", data, f"(ENCODING '{name}')")
    assert not _assert_same(connection, case)
    broken = data[: len(data) // 2] + b"\xff\xfe" + data[len(data) // 2 :]
    _assert_same(connection, Case(case.making, broken, case.options))


def test_columns_in_another_order(connection: Connection) -> None:
    case = Case(
        "CREATE TABLE t (x int, a int DEFAULT 3, s text, k int NOT NULL, "
        "g int GENERATED ALWAYS AS (k + 1) STORED); ALTER TABLE t DROP x",
        "".join(f"{k}\tvalue {k}\n" for k in range(2000)),
        target="t (k, s)",
    )
    assert not _assert_same(connection, case)


@pytest.mark.parametrize("check", ["CHECK (k <> 1500)", "CHECK (1 / (k - 1500) < 2)", "DEFAULT 1"])
def test_errors_name_and_quote_the_line(connection: Connection, check: str) -> None:
    """All of the line that cannot be read, the number of one whose row waits."""
    data = "".join(f"{k}\tvalue {k}\n" for k in range(1, 2000)) + "2000\n"
    case = Case(f"CREATE TABLE t (k int {check}, s text)", data)
    assert _assert_same(connection, case)
