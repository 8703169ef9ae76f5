"""Text that every room writes alike."""


def plural(count: int, singular: str, several: str = "") -> str:
    """`1 case`, `2 cases`, `1,200 cases`; `several` is the plural where it is not `singular` with an s."""
    return f"{count:,} {singular if count == 1 else several or singular + 's'}"
