"""What the field claims for a case, to be held beside what is measured here."""

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

_FILE = Path(__file__).with_name("claims.toml")

#: How a claim's value compares: `ratio` is eager fp32 / case, `saved` is 1 - case / eager fp32, `value` the
#: metric itself in the catalogue's unit, `efficiency` that of scaling against one rank.
Kind = Literal["ratio", "saved", "value", "efficiency"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One published or circulated claim about the cases that match one of `cases` (globs).

    It says that `metric` ("" while it is not measured) lies between `low` and `high`, read as `kind`
    says; the two are equal for a claim of one number. `url` is empty where the origin could not be found.
    """

    cases: tuple[str, ...]
    statement: str
    metric: str
    kind: Kind
    low: float
    high: float
    hardware: str
    source: str
    url: str

    def concerns(self, case: str) -> bool:
        """Whether the claim is about this case key."""
        return any(fnmatchcase(case, pattern) for pattern in self.cases)


@cache
def all_claims() -> tuple[Claim, ...]:
    """Every claim, in the order of the file; raises ValueError for a claim of no known kind."""
    return tuple(_claim(table) for table in tomllib.loads(_FILE.read_text())["claim"])


def claims_for(case: str) -> tuple[Claim, ...]:
    """The claims about a case key, in the order of the file."""
    return tuple(claim for claim in all_claims() if claim.concerns(case))


def _claim(table: dict[str, Any]) -> Claim:
    value = table["value"]
    low, high = value if isinstance(value, list) else (value, value)
    if table["kind"] not in get_args(Kind):
        raise ValueError(f"a claim is of no kind {table['kind']!r}: one of {', '.join(get_args(Kind))}")
    return Claim(
        cases=tuple(table["cases"]),
        statement=table["statement"],
        metric=table["metric"],
        kind=table["kind"],
        low=float(low),
        high=float(high),
        hardware=table["hardware"],
        source=table["source"],
        url=table.get("url", ""),
    )
