"""Words that several rooms form alike."""


def plural(many: int, noun: str) -> str:
    """`1 case`, `2 cases`."""
    return f"{many:,} {noun}" + ("" if many == 1 else "s")


def printable(text: str) -> str:
    """The text in one line, without characters that steer a terminal or a page."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
