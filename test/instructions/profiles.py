"""Reads callgrind's profiles: how many instructions, and in which functions."""

import re
from collections import Counter

from lookahead.errors import LabError

# Functions that were called before the profile began and have not returned: callgrind_annotate
# would take what was called below them for their own.
_CALLERS = re.compile(r"^calls=0 .*\n.*\n", re.MULTILINE)
_TOTAL = re.compile(r"^totals: (\d+)$", re.MULTILINE)
# A name is written out where it stands first, with a number that stands for it later. Of a call,
# the line after it is what the callee cost, which its own lines say again.
_LINE = re.compile(
    r"^(?P<kind>c?fn)=\((?P<number>\d+)\)(?: (?P<name>.*))?$"
    r"|^calls=.*\n.*$"
    r"|^(?:[+-]?\d+|\*) (?P<cost>\d+)$",
    re.MULTILINE,
)
# callgrind numbers recursions of a function, and gcc the parts into which it cuts one.
_PARTS = re.compile(r"('\d+|\.(part|cold|isra|constprop)\.?\d*)+$")


def readable(profile: str) -> str:
    """The profile as callgrind_annotate understands it."""
    return _CALLERS.sub("", profile)


def functions(profile: str) -> Counter[str]:
    """Instructions in each function itself; LabError unless they sum up to callgrind's total."""
    costs: Counter[str] = Counter()
    names: dict[str, str] = {}
    function = ""
    for line in _LINE.finditer(profile):
        if line["kind"]:
            if line["name"]:
                names[line["number"]] = _PARTS.sub("", line["name"])
            if line["kind"] == "fn":
                function = names[line["number"]]
        elif line["cost"]:
            costs[function] += int(line["cost"])
    total = _TOTAL.search(profile)
    if total is None or int(total[1]) != costs.total():
        raise LabError("callgrind wrote a profile that does not sum up")
    return costs
