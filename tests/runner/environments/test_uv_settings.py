"""uv's indexes in pip's variables, where pip has none of its own."""

from pathlib import Path

import pytest

from runner.environments.package_index import taken_over

FILE = """
index-url = "https://old-style/simple"
find-links = ["wheels", "https://pages/"]

[[index]]
name = "company"
url = "https://company/simple"
default = true

[[index]]
url = "https://more/simple"

[[index]]
name = "cuda"
url = "https://for-one-package/simple"
explicit = true
"""


def test_variables_of_uv_become_those_of_pip() -> None:
    environ = {
        "UV_DEFAULT_INDEX": "ours=https://company/simple",
        "UV_INDEX": "more=https://more/simple https://third/simple?a=b",
        "UV_FIND_LINKS": "/wheels,https://pages/",
    }
    found, sentence = taken_over(environ, str)
    assert found == {
        "PIP_INDEX_URL": "https://company/simple",
        "PIP_EXTRA_INDEX_URL": "https://more/simple https://third/simple?a=b",
        "PIP_FIND_LINKS": "/wheels https://pages/",
    }
    assert sentence == "pip has no package index configured: those of uv's variables are taken"


@pytest.mark.parametrize(
    "setting", ["global.index-url='https://x'", ":env:.find-links='/w'", "install.no-index='1'"]
)
def test_a_pip_with_an_index_of_its_own_is_left_alone(setting: str) -> None:
    environ = {"UV_DEFAULT_INDEX": "https://company/simple"}
    assert taken_over(environ, lambda: f"global.timeout='60'\n{setting}\n") == ({}, "")
    assert taken_over(environ, lambda: "global.timeout='60'\n")[0]


def test_a_file_of_uv_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "uv/uv.toml"
    file.parent.mkdir()
    file.write_text(FILE)
    found, sentence = taken_over({"XDG_CONFIG_HOME": str(tmp_path)}, str)
    assert found == {
        "PIP_INDEX_URL": "https://company/simple",
        "PIP_EXTRA_INDEX_URL": "https://more/simple",
        "PIP_FIND_LINKS": f"{tmp_path}/uv/wheels https://pages/",
    }
    assert str(file) in sentence


def test_variables_come_before_files_and_the_user_s_file_before_the_system_s(tmp_path: Path) -> None:
    for name in ("user", "system", "chosen"):
        (tmp_path / name / "uv").mkdir(parents=True)
        (tmp_path / name / "uv/uv.toml").write_text(f'[pip]\nindex-url = "https://{name}/"\n')
    places = {"XDG_CONFIG_HOME": str(tmp_path / "user"), "XDG_CONFIG_DIRS": str(tmp_path / "system")}

    def index(**variables: str) -> str | None:
        return taken_over({**places, **variables}, str)[0].get("PIP_INDEX_URL")

    assert index() == "https://user/"
    assert index(XDG_CONFIG_HOME=str(tmp_path / "none")) == "https://system/"
    assert index(UV_CONFIG_FILE=str(tmp_path / "chosen/uv/uv.toml")) == "https://chosen/"
    assert index(UV_INDEX_URL="https://variable/") == "https://variable/"
    assert index(UV_NO_CONFIG="1") is None


def test_a_broken_file_of_uv_is_uv_s_trouble(tmp_path: Path) -> None:
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv/uv.toml").write_text("index-url = \n")
    assert taken_over({"XDG_CONFIG_HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path)}, str) == ({}, "")
