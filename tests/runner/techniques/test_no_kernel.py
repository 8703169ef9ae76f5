"""An operator without a kernel for a number format is unsupported, in old releases as in new ones."""

from pathlib import Path

import pytest

from support.site import run_snippet

pytestmark = pytest.mark.torch


def test_an_operator_without_a_kernel_is_unsupported_and_another_error_a_crash() -> None:
    found = run_snippet(Path(__file__).parent / "snippets/no_kernel.py")
    # The real error of this release, and the words of releases that raised a RuntimeError.
    assert found == {"raised": "unsupported", "older": "unsupported", "other": "crashed"}
