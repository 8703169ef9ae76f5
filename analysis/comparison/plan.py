"""When a growing row of pairs is looked at, and how much of the error each look may spend."""

from dataclasses import dataclass

#: Fewer pairs than this are never judged by their spread.
FEWEST = 4
#: The numbers of pairs at which a case is looked at, and how the error is divided among the looks: most of it
#: at the first ones, for a suite without a change is to be cleared soon.
_LOOKS = (4, 6, 8, 10, 12, 16, 20, 24, 32)
_PARTS = (25, 20, 12, 10, 9, 8, 7, 5, 4)
#: The part of each look beyond those, which are at half as many pairs more and then at twice as many.
_LATER = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """Looks at 4, 6, 8, 10, 12, 16, 20, 24, 32 pairs and so on, the last at `largest`.

    A plan is made before the first pair, from what the budget affords, and never from what the pairs say.
    Over all its looks it calls a change that is none in at most the share `alpha` of cases, and calls the
    same what differs by the threshold in at most the share `alpha_same`. Each look has a part of these errors
    as a test of its own: the sum bounds the whole by Boole's inequality, whatever the looks have in common,
    whichever statistic is used and whenever one stops. Raises ValueError for fewer than `FEWEST` pairs.
    """

    largest: int = 12
    alpha: float = 0.01
    alpha_same: float = 0.05

    def __post_init__(self) -> None:
        """Raise ValueError for a plan that cannot be kept."""
        if self.largest < FEWEST:
            raise ValueError(f"a plan has {FEWEST} pairs or more, not {self.largest}")
        if not (0 < self.alpha < 0.5 and 0 < self.alpha_same < 0.5):
            raise ValueError("the share of errors lies between 0 and 0.5")

    @property
    def smallest(self) -> int:
        """The number of pairs at the first look."""
        return self.looks[0]

    @property
    def looks(self) -> tuple[int, ...]:
        """The numbers of pairs at which the plan looks, in order."""
        looks, double = [*_LOOKS], 2 * _LOOKS[-1]
        while looks[-1] < self.largest:
            looks += [double * 3 // 4, double]
            double *= 2
        return (*(look for look in looks if look < self.largest), self.largest)

    def look(self, pairs: int) -> int:
        """The last look that `pairs` pairs reach; 0 before the first."""
        return max((look for look in self.looks if look <= pairs), default=0)

    def share(self, look: int) -> float:
        """The share of either error that belongs to this look; those of all looks add up to 1."""
        looks = self.looks
        parts = [*_PARTS[: len(looks)], *[_LATER] * (len(looks) - len(_PARTS))]
        return parts[looks.index(look)] / sum(parts)

    def within(self, pairs: int) -> "Plan":
        """This plan with at most so many pairs: an even number, as either side starts first in half."""
        return Plan(max(FEWEST, min(self.largest, pairs - pairs % 2)), self.alpha, self.alpha_same)
