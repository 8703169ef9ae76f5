"""Case keys in the columns of a table, broken where they have parts."""

import re
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

#: A part of a case key with the separator that ends it.
_PART = re.compile(r"[^/,]*[/,]|[^/,]+")


@dataclass(frozen=True, slots=True)
class CaseName:
    """A case key that is broken after `/` and `,`; within a part only where that alone is too wide."""

    key: str

    def lines(self, width: int) -> list[str]:
        """The key in lines of at most `width` characters."""
        found = [""]
        for part in _PART.findall(self.key):
            if found[-1] and len(found[-1]) + len(part) > width:
                found.append("")
            found[-1] += part
        return [line[at : at + width] for line in found for at in range(0, len(line) or 1, width)]

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """From the widest part to the whole key."""
        widest = max(map(len, _PART.findall(self.key)), default=0)
        return Measurement(widest, len(self.key)).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines, without markup."""
        yield Text("\n".join(self.lines(max(1, options.max_width))), no_wrap=True)
