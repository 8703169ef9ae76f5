"""The looks at a growing sequence of pairs, and the share of the error rate of each look."""

from dataclasses import dataclass

#: The fewest pairs that are judged by their spread.
FEWEST = 4
#: The numbers of pairs at the looks, and the division of the error rate among them: most is spent at the
#: first ones, so that a suite without a change is decided soon.
_LOOKS = (4, 6, 8, 10, 12, 16, 20, 24, 32)
_PARTS = (25, 20, 12, 10, 9, 8, 7, 5, 4)
#: The part of each further look; these are at 1.5 times and 2 times the pairs, and so on.
_LATER = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """Looks at 4, 6, 8, 10, 12, 16, 20, 24, 32 pairs and so on, the last at `largest`.

    A plan is made before the first pair, from the budget, never from the pairs. Over all its looks at most
    the share `alpha` of unchanged cases are called changed, and at most the share `alpha_same` of cases that
    differ by the threshold are called the same. Each look is a separate test with a part of these error
    rates: by Boole's inequality the sum bounds the whole for any dependence of the looks, any statistic and
    any stopping rule. Raises ValueError for fewer than `FEWEST` pairs.
    """

    largest: int = 12
    alpha: float = 0.01
    alpha_same: float = 0.05

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid plan."""
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
        """The share of each error rate that belongs to this look; the shares of all looks add up to 1."""
        looks = self.looks
        parts = [*_PARTS[: len(looks)], *[_LATER] * (len(looks) - len(_PARTS))]
        return parts[looks.index(look)] / sum(parts)

    def within(self, pairs: int) -> "Plan":
        """This plan with at most the given number of pairs, made even, because each side starts first in half
        of them.
        """
        return Plan(max(FEWEST, min(self.largest, pairs - pairs % 2)), self.alpha, self.alpha_same)
