"""What can be noted about a finding: the one rule of the command line, the page and the API."""

from urllib.parse import urlsplit

#: Characters of a name and of a text that are noted about a finding.
MOST_NAME, MOST_TEXT = 200, 2000
#: The actions that are nothing without a text, and what it is called; the text of any other is its reason.
TEXTS = {"note": "Note", "link": "Address of the issue"}


def triage_complaint(action: str, text: str, who: str) -> str:
    """Why something cannot be noted about a finding, in one sentence; empty where it can."""
    # A form holds a browser to these lengths, and not a program that writes a browser's messages.
    if len(text) > MOST_TEXT or len(who) > MOST_NAME:
        return f"A text has at most {MOST_TEXT:,} characters, and a name {MOST_NAME}."
    if "\0" in text or "\0" in who:
        return "No database takes NUL in a text."
    if not who.strip():
        return "Enter a name, so that others know whom to ask."
    if action in TEXTS and not text.strip():
        return "A note says something, and a link is an address."
    if action == "link" and not _is_address(text.strip()):
        return "A link is an address that begins with http:// or https://, without a password in it."
    return ""


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.password is None
    except ValueError:
        return False
    return whole and text.isprintable() and " " not in text
