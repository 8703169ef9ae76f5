"""What a page shows, as one frozen record that its address holds."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class View(ABC):
    """Base of every page's selection, a frozen dataclass each. The address is the only place it lives."""

    @abstractmethod
    def query(self) -> dict[str, list[str]]:
        """The whole selection as a URL's query: nothing is left to a default that may change."""

    def after(self, name: str, value: Any) -> Self:
        """The view once somebody chose another `value` for the field `name`."""
        return replace(self, **{name: value})
