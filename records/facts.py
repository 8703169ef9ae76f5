"""Facts: what is kept as JSON, by name."""

from collections.abc import Mapping
from typing import Any

Facts = Mapping[str, Any]
