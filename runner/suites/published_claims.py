"""What the field claims for a case, to be held beside what is measured here."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, get_args

from records.references import Claim, ClaimKind

_FILE = Path(__file__).with_name("claims.toml")


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
    if table["kind"] not in get_args(ClaimKind):
        raise ValueError(f"a claim is of no kind {table['kind']!r}: one of {', '.join(get_args(ClaimKind))}")
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
