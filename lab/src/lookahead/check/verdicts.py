"""What `lookahead check` can say of a statement."""

from collections.abc import Mapping
from typing import Literal

Verdict = Literal["yes", "when cold", "little", "no", "unknown"]
Conclusion = tuple[Verdict, str]
VERDICTS: Mapping[Verdict, str] = {
    "yes": "YES",
    "when cold": "WHEN COLD",
    "little": "LITTLE",
    "no": "NO",
    "unknown": "DON'T KNOW",
}
# Of several reasons the last one counts: what gains somewhere gains.
RANKS: tuple[Verdict, ...] = ("no", "little", "unknown", "when cold", "yes")
