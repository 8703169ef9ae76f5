"""Decides whether a case gets more pairs."""

from dataclasses import dataclass
from typing import Literal

from .false_discovery_rate import RATE
from .pairs import WAITS
from .plan import Plan
from .verdict import Verdict

AdviceCause = Literal["look ahead", "decided", "plan used up", "not comparable"]


@dataclass(frozen=True, slots=True)
class Advice:
    """`more` further pairs to the next look, 0 to stop, and the `cause` of it, from a `verdict`.

    `pairs` is the number that belongs to the cause: of the next look, of the whole plan if it is used up,
    else the pairs behind the verdict.
    """

    more: int
    cause: AdviceCause
    verdict: Verdict
    pairs: int

    @property
    def go_on(self) -> bool:
        """Whether to continue."""
        return self.more > 0


def advise(verdict: Verdict, plan: Plan, cases: int = 1, rate: float = RATE) -> Advice:
    """Go on to the next look, or stop: decided, or at the plan's end.

    `verdict` is that of `judge` under the same plan. A case called `faster` or `slower` continues until it
    would be significant as the only discovery among all `cases` of the suite (see
    `false_discovery_rate.control`) at the false discovery `rate`: when cases stopped at their first such
    verdict, half of the true ones were withdrawn. Stopping early and continuing add no false verdicts,
    because the error rate is spent per look. The same pairs must not be extended beyond the plan's largest
    number. A case that is still unclear then is decided by new pairs under a new plan.
    """
    if verdict.word == "not comparable":
        return Advice(0, "not comparable", verdict, verdict.n)
    called = verdict.word in ("faster", "slower")
    sure = verdict.p is None or verdict.p <= rate / cases
    if verdict.word == "same" or (called and sure):
        return Advice(0, "decided", verdict, verdict.n)
    counting = verdict.n + verdict.left_out.count(WAITS)
    ahead = [look for look in plan.looks if look > counting]
    if not ahead:
        return Advice(0, "plan used up", verdict, plan.largest)
    return Advice(ahead[0] - counting, "look ahead", verdict, ahead[0])
