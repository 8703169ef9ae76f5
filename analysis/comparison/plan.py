"""When a growing row of pairs is looked at, and how much of the error each look may spend."""

from dataclasses import dataclass

#: Fewer pairs than this are never judged by their spread.
FEWEST = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """Looks at `smallest` pairs, then every `step` more, and last at `largest`; raises ValueError otherwise.

    A plan is made before the first pair, from what the budget affords, and never from what the pairs say.
    Over all its looks it calls a change that is none in at most the share `alpha` of cases, and calls the
    same what differs by the threshold in at most the share `alpha_same`.

    The errors are spent as min(n / largest, 1) ** 3 (Kim and DeMets, Design and analysis of group sequential
    tests based on the type I error spending rate function, Biometrika 74, 1987; alpha spending: Lan and
    DeMets, Biometrika 70, 1983), so most of it is left for the last look, as O'Brien and Fleming would have
    it. Each look has what is spent since the one before, as a test of its own: the sum bounds the whole by
    Boole's inequality, whatever the looks have in common and whichever statistic is used.
    """

    smallest: int = 6
    largest: int = 12
    step: int = 2
    alpha: float = 0.01
    alpha_same: float = 0.05

    def __post_init__(self) -> None:
        """Raise ValueError for a plan that cannot be kept."""
        if not FEWEST <= self.smallest <= self.largest or self.step < 1:
            raise ValueError(
                f"a plan goes from {FEWEST} pairs or more up to as many or more in steps of 1 or more, "
                f"not from {self.smallest} to {self.largest} by {self.step}"
            )
        if not (0 < self.alpha < 0.5 and 0 < self.alpha_same < 0.5):
            raise ValueError("the share of errors lies between 0 and 0.5")

    @property
    def looks(self) -> tuple[int, ...]:
        """The numbers of pairs at which the plan looks, in order."""
        return (*range(self.smallest, self.largest, self.step), self.largest)

    def look(self, pairs: int) -> int:
        """The last look that `pairs` pairs reach; 0 before the first."""
        return max((look for look in self.looks if look <= pairs), default=0)

    def share(self, look: int) -> float:
        """The share of either error that belongs to this look; those of all looks add up to 1."""
        looks = self.looks
        before = looks[looks.index(look) - 1] if look != looks[0] else 0
        return (look / self.largest) ** 3 - (before / self.largest) ** 3

    def within(self, pairs: int) -> "Plan":
        """This plan with at most so many pairs: an even number, as either side starts first in half."""
        largest = max(FEWEST, min(self.largest, pairs - pairs % 2))
        return Plan(min(self.smallest, largest), largest, self.step, self.alpha, self.alpha_same)
