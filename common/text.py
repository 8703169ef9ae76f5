"""Words that several rooms form alike."""


def plural(many: int, noun: str) -> str:
    """`1 case`, `2 cases`."""
    return f"{many:,} {noun}" + ("" if many == 1 else "s")
