"""Settings as a file with some text makes them."""

from pathlib import Path

import pytest

from configuration.errors import ConfigurationError
from configuration.settings import Settings, load_settings


def loaded(folder: Path, text: str | bytes, **variables: str) -> Settings:
    """What `pyrometer.toml` in a folder says with this text, under these variables and no others."""
    (folder / "pyrometer.toml").write_bytes(text.encode() if isinstance(text, str) else text)
    return load_settings(cwd=folder, environ=variables)


def complaint(folder: Path, text: str | bytes, **variables: str) -> ConfigurationError:
    """The error that a file with this text raises; it is one line."""
    with pytest.raises(ConfigurationError) as caught:
        loaded(folder, text, **variables)
    assert "\n" not in str(caught.value)
    return caught.value
