"""A process that answers probes: it reads a name a line and writes one JSON object a line.

The object holds `figures` of the probe's lines by line, or `skip` or `error` with a sentence.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

#: Figures by line of the acceptance.
Answer = Mapping[str, Mapping[str, Any]]


class NotHere(Exception):
    """The probe cannot be made on this machine; the text says why in a sentence."""


def serve(probes: Mapping[str, Callable[[], Answer]]) -> None:
    """Answer the probes named on standard input, until it ends; what they print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"figures": probes[line.strip()]()}
        except NotHere as reason:
            answer = {"skip": str(reason)}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
