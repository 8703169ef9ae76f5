"""Suggests the nearest valid name for an invalid one."""

import difflib
from collections.abc import Iterable

from common.text import some

#: The most names in a sentence.
SHOWN = 8


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The name in `valid` most like `name`, or None when none is like it.

    Case is ignored. A shortened case key (`resnet5` for `resnet50/infer/batch=1/eager`) is compared with keys
    shortened in the same way, and a part of a name finds the first name, in order, that contains it.
    """
    names = sorted(set(valid))
    depth = name.count("/") + 1
    shortened: dict[str, str] = {}
    for candidate in reversed(names):
        shortened["/".join(candidate.casefold().split("/")[:depth])] = candidate
    folded = name.casefold()
    # The whole names come last, so that they take precedence over short forms of other names.
    spellings = shortened | {candidate.casefold(): candidate for candidate in reversed(names)}
    if close := difflib.get_close_matches(folded, spellings, n=1):
        return spellings[close[0]]
    return next((candidate for candidate in names if folded and folded in candidate.casefold()), None)


def unknown(kind: str, name: str, valid: Iterable[str], *, newest_first: bool = False) -> str:
    """One sentence: `unknown suite "smok": did you mean "smoke"? (valid: cpu, smoke)`.

    `newest_first` lists names that begin with a date, such as run ids, newest first.
    """
    names = sorted(set(valid), reverse=newest_first)
    sentence = f'unknown {kind} "{name}"'
    if not names:
        return f"{sentence}: none exists"
    if near := nearest(name, names):
        sentence += f': did you mean "{near}"?'
    return f"{sentence} (valid: {some(names, SHOWN)})"
