"""A database URL that lies in a file of its own, read as strictly as one in a variable and never repeated."""

import os
from pathlib import Path

import pytest

from configuration.errors import ConfigurationError, UnknownKey, UnreadableFile, WrongValue
from configuration.settings import Settings, load_settings

URL = "postgresql://pyrometer:hunter2@database/pyrometer"
VARIABLE = "PYROMETER_DATABASE_URL_FILE"


def settings_of(folder: Path, **environ: str) -> Settings:
    """The settings in `folder`, with these variables and no others."""
    return load_settings(cwd=folder, environ=environ)


def complaint(folder: Path, content: bytes, **environ: str) -> ConfigurationError:
    """The error that a secret with this content raises; it holds neither a line break nor the password."""
    (folder / "secret").write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        settings_of(folder, **{VARIABLE: "secret", **environ})
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value) + repr(caught.value.__cause__)
    return caught.value


@pytest.mark.parametrize("content", [URL, f"{URL}\n", f"  {URL}\r\n\n"])
def test_the_url_is_the_files_text_without_the_space_around_it(tmp_path: Path, content: str) -> None:
    (tmp_path / "secret").write_text(content)
    settings = settings_of(tmp_path, **{VARIABLE: str(tmp_path / "secret")})
    assert settings.database_url == URL
    assert settings.explicit == {"database_url"}
    assert "hunter2" not in repr(settings)


def test_it_stands_above_the_settings_file(tmp_path: Path) -> None:
    (tmp_path / "pyrometer.toml").write_text('database_url = "sqlite:///other.db"\n')
    (tmp_path / "secret").write_text(URL)
    assert settings_of(tmp_path, **{VARIABLE: "secret"}).database_url == URL


def test_relative_paths_count_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "pyrometer.toml").touch()
    (tmp_path / "secret").write_text("sqlite:///x.db")
    settings = settings_of(tmp_path, PYROMETER_CONFIG="config/pyrometer.toml", **{VARIABLE: "secret"})
    assert settings.database_url == f"sqlite:///{tmp_path}/x.db"


def test_an_empty_variable_is_none_at_all(tmp_path: Path) -> None:
    (tmp_path / ".pyrometer").mkdir()
    (tmp_path / "secret").write_text(URL)
    assert settings_of(tmp_path, **{VARIABLE: ""}).database_url == f"sqlite:///{tmp_path}/pyrometer.db"
    assert settings_of(tmp_path, PYROMETER_DATABASE_URL=URL, **{VARIABLE: ""}).database_url == URL
    assert settings_of(tmp_path, PYROMETER_DATABASE_URL="", **{VARIABLE: "secret"}).database_url == URL


def test_two_urls_are_a_contradiction(tmp_path: Path) -> None:
    error = complaint(tmp_path, URL.encode(), PYROMETER_DATABASE_URL="sqlite:///x.db")
    assert isinstance(error, WrongValue)
    assert str(error) == f"PYROMETER_DATABASE_URL and {VARIABLE} are both set; unset one of them"


@pytest.mark.parametrize(
    ("content", "kind", "sentence"),
    [
        (b"", WrongValue, f"secret ({VARIABLE}) holds nothing, expected one line, a URL"),
        (b" \n", WrongValue, f"secret ({VARIABLE}) holds nothing, expected one line, a URL"),
        (
            f"{URL}\n# old: {URL}\n".encode(),
            WrongValue,
            f"secret ({VARIABLE}) holds several lines, expected one line, a URL",
        ),
        (b"hunter2\xff", UnreadableFile, f"secret ({VARIABLE}) cannot be read: not UTF-8"),
        (
            b"hunter2",
            WrongValue,
            f"{VARIABLE} is not usable, expected a URL such as sqlite:///pyrometer.db or "
            "postgresql://user@host/name",
        ),
    ],
)
def test_what_is_no_url_is_said_and_not_repeated(
    tmp_path: Path, content: bytes, kind: type[ConfigurationError], sentence: str
) -> None:
    error = complaint(tmp_path, content)
    assert (type(error), str(error)) == (kind, sentence)


def test_a_url_instead_of_a_file_is_not_repeated(tmp_path: Path) -> None:
    error = complaint(tmp_path, b"", **{VARIABLE: URL})
    assert str(error) == (
        f"{VARIABLE} holds a URL, expected the path of a file; a URL belongs into PYROMETER_DATABASE_URL"
    )


@pytest.mark.parametrize(("name", "number"), [("absent", 2), (".", 21)])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, number: int) -> None:
    with pytest.raises(UnreadableFile) as caught:
        settings_of(tmp_path, **{VARIABLE: name})
    assert str(caught.value) == f"{name} ({VARIABLE}) cannot be read: {os.strerror(number)}"


def test_a_misspelt_variable_is_still_noticed(tmp_path: Path) -> None:
    with pytest.raises(UnknownKey, match="PYROMETER_DATABASE_URL_FILES"):
        settings_of(tmp_path, PYROMETER_DATABASE_URL_FILES="secret")
