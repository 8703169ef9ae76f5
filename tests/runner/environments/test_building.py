"""Environments are really built, by the real pip from small wheels; whatever goes wrong leaves nothing."""

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from runner.environments import build_process, package_index
from runner.environments.building import BuildContext, build_all, mismatch
from runner.environments.interpreter import look_at
from runner.environments.recipe import Recipe
from runner.environments.store import FREEZE, MARK, StoredEnvironment
from runner.errors import BuildFailed, IndexFailed
from support.fakes.torch_wheels import write_wheel
from support.servers.loopback import Quiet, answering
from support.servers.package_index import GatedIndex

pytestmark = pytest.mark.slow


def bare(torch: str, **changes: object) -> Recipe:
    """A recipe of torch alone."""
    return Recipe(torch=torch, usual=False, **changes)  # type: ignore[arg-type]


def built(context: BuildContext, *recipes: Recipe) -> tuple[list[StoredEnvironment | BuildFailed], list[str]]:
    """The results of recipes that are built at once, and the reported phases."""
    phases: list[str] = []
    numbered = {str(number): recipe for number, recipe in enumerate(recipes)}
    made = build_all(context, numbered, lambda name, phrase: phases.append(f"{name}: {phrase}"))
    return [made[name] for name in numbered], phases


def failure(context: BuildContext, recipe: Recipe) -> str:
    """Why a recipe cannot be built; nothing of it is left but its log."""
    ((made,), _) = built(context, recipe)
    assert isinstance(made, BuildFailed), made
    sentence = str(made)
    assert "\n" not in sentence and "Traceback" not in sentence
    assert not context.store.path_of(recipe).exists()
    if "(log: " in sentence:
        assert Path(sentence.partition("(log: ")[2].removesuffix(")")).read_text()
    return sentence


def test_several_are_built_at_once_and_one_that_fails_takes_none_along(
    context: BuildContext, local_wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A user's own pip settings must not change where packages are installed.
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    twice = bare("2.9.1", packages=("besides",))
    (old, same, night, none), phases = built(context, twice, twice, bare("nightly"), bare("2.13.7"))
    assert old == same and sum("another process builds it: waiting" in line for line in phases) == 1
    assert (
        isinstance(old, StoredEnvironment)
        and isinstance(night, StoredEnvironment)
        and isinstance(none, BuildFailed)
    )
    assert (old.facts["torch"], night.facts["torch"]) == ("2.9.1", "2.16.0.dev20261120+cpu")
    assert old.label == "2.9.1" and night.label == "nightly-2026-11-20"
    assert sum("2: making the virtual environment" in line for line in phases) == 1
    assert "2: verifying" in phases
    assert str(none).startswith(
        "environment 2.13.7 cannot be built: the package index offers no torch 2.13.7 for Python "
    )
    assert re.search(r"; the nearest are .*2\.10\.0, 2\.13\.0\+cpu, 2\.14\.0rc1.* \(log: ", str(none))
    assert not (tmp_path / "elsewhere").exists()
    assert {each.name for each in context.store.all()} == {old.name, night.name}
    described(context, old)
    reused(context, old)


def described(context: BuildContext, old: StoredEnvironment) -> None:
    """What a build writes down about what it made."""
    frozen = (old.folder / FREEZE).read_text().splitlines()
    assert frozen == ["besides==1.0.0", "torch==2.9.1"]
    assert old.facts["packages"] == frozen
    assert len(old.facts["fingerprint"]) == 16
    assert json.loads((old.folder / MARK).read_text())["facts"] == old.facts
    assert not (old.folder / "tmp").exists()
    again = context.describe("2.9.1", old.python)
    assert again.fingerprint == old.facts["fingerprint"]


def reused(context: BuildContext, old: StoredEnvironment) -> None:
    """The same recipe again builds nothing; another one beside torch is another environment."""
    ((same,), phases) = built(context, bare("2.9.1", packages=("besides",)))
    assert isinstance(same, StoredEnvironment) and (same.folder, same.built_at) == (old.folder, old.built_at)
    assert phases == []
    assert context.store.find(bare("2.9.1")) is None


def test_what_another_version_of_its_python_made_is_built_again_in_its_folder(
    context: BuildContext, local_wheels: Path, tmp_path: Path
) -> None:
    base = tmp_path / "python3"
    base.symlink_to(sys.executable)
    recipe = bare("2.10.0", base_python=str(base))
    ((first,), _) = built(context, recipe)
    assert isinstance(first, StoredEnvironment)
    # As if the link had led to another one then.
    body = json.loads((first.folder / MARK).read_text())
    body["facts"]["python"] = "3.1.0"
    (first.folder / MARK).write_text(json.dumps(body))
    ((second,), phases) = built(context, recipe)
    assert isinstance(second, StoredEnvironment) and "0: verifying" in phases
    assert second.folder == first.folder and second.facts == first.facts
    assert built(context, recipe) == ([second], [])


@pytest.mark.parametrize(
    ("recipe", "facts", "sentence"),
    [
        (bare("2.10.0"), {}, ""),
        (bare("2.10.0+cpu"), {}, "the installed torch is 2.10.0, not 2.10.0+cpu"),
        (bare("nightly 2026-11-20"), {}, "the installed torch is 2.10.0, not the nightly 2026-11-20"),
        (bare("nightly 2026-11-20"), {"torch": "2.16.0.dev20261120+cpu"}, ""),
        (bare("2.10.0", device="cuda"), {}, "torch 2.10.0 is built without CUDA, and `device` is cuda"),
        (bare("2.10.0", device="cuda"), {"cuda": "13.0"}, "is built for CUDA 13.0 but sees no GPU here"),
        (bare("2.10.0", device="cuda"), {"cuda": "13.0", "devices": [{"name": "H200"}]}, ""),
        (Recipe(wheel="/w/torch.whl"), {}, ""),
    ],
)
def test_what_came_is_held_against_what_was_wanted(
    recipe: Recipe, facts: dict[str, object], sentence: str
) -> None:
    said = mismatch(recipe, {"torch": "2.10.0", "cuda": None, "devices": [], **facts})
    assert sentence in said and bool(sentence) == bool(said)


def test_what_cannot_be_imported_or_calls_itself_otherwise_is_thrown_away(
    context: BuildContext, local_wheels: Path
) -> None:
    recipes = (bare("4.0.0"), bare("4.1.0"), bare("2.10.0", packages=("nobody-has-this",)))
    made, _ = built(context, *recipes)
    why = "cannot be built: it is built, but cannot import torch: ImportError: libcudart.so.13: no such file"
    assert why in str(made[0])
    assert "the installed torch is 4.0.9, not 4.1.0" in str(made[1])
    assert "the package index offers no nobody-has-this for Python 3" in str(made[2])
    assert context.store.all() == context.store.sweep() == []


def test_a_python_that_the_version_is_not_made_for(context: BuildContext, local_wheels: Path) -> None:
    sentence = failure(context, bare("3.0.0"))
    assert "the package index offers no torch 3.0.0 for Python 3." in sentence
    assert ", but for 3.9: `base_python` names another" in sentence
    (wheel,) = local_wheels.glob(f"torch-3.0.0-*{os.uname().machine}.whl")
    sentence = failure(context, Recipe(wheel=str(wheel), usual=False))
    assert "is for another Python or platform" in sentence


def test_a_day_without_a_nightly(context: BuildContext, local_wheels: Path) -> None:
    sentence = failure(context, bare("nightly 2026-11-19"))
    near = "2.16.0.dev20261118+cpu, 2.16.0.dev20261120+cpu"
    assert f"offers no nightly of 2026-11-19; the nearest are {near}" in sentence


def test_an_index_that_does_not_answer(context: BuildContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_RETRIES", "0")
    for name in ("PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    # Port 9 is the discard service's, which does not run.
    dead = "http://me:secret@127.0.0.1:9/simple"
    sentence = failure(context, bare("2.10.0", index=dead))
    assert "the package index at 127.0.0.1 does not answer: it refuses the connection" in sentence
    with pytest.raises(IndexFailed, match=r"127\.0\.0\.1 does not answer"):
        package_index.list_versions(bare("", index=dead), look_at(""))
    for file in context.store.folder.rglob("*"):
        assert not file.is_file() or b"secret" not in file.read_bytes()


@pytest.mark.parametrize(
    ("python", "why"),
    [
        ("/nowhere/python", "there is no such file"),
        ("/bin/ls", "it is no Python 3.4 or newer"),
        ("/etc/hostname", "Exec format error|Permission denied"),
        ("/bin", "Permission denied"),
    ],
)
def test_an_interpreter_that_is_none(context: BuildContext, python: str, why: str) -> None:
    with pytest.raises(BuildFailed, match=f"{python} cannot make an environment: ({why})"):
        look_at(python)
    assert "cannot make an environment" in failure(context, bare("2.10.0", base_python=python))


def test_a_disk_that_is_too_small(
    small_disk: Path,
    context: BuildContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    local_wheels: Path,
) -> None:
    wheel = write_wheel(tmp_path / "large", "2.10.0", ballast_mib=64)
    there = BuildContext(
        type(context.store)(small_disk / "environments"), context.describe, context.cancelled
    )
    recipe = Recipe(wheel=str(wheel), usual=False)
    assert "cannot be built: the disk is full" in failure(there, recipe)
    assert there.store.all() == []


def test_what_lies_in_the_way_and_is_not_ours_stays(context: BuildContext, local_wheels: Path) -> None:
    recipe = bare("2.10.0")
    path = context.store.path_of(recipe)
    path.mkdir(parents=True)
    (path / "thesis.txt").write_text("years of work")
    ((made,), _) = built(context, recipe)
    assert isinstance(made, BuildFailed) and "is in the way" in str(made)
    assert (path / "thesis.txt").read_text() == "years of work"


def test_uv_s_index_serves_where_pip_knows_none(
    context: BuildContext, local_wheels: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    empty = tmp_path / "index"
    empty.mkdir()
    monkeypatch.setenv("UV_INDEX_URL", empty.as_uri())
    monkeypatch.setenv("UV_FIND_LINKS", str(local_wheels))
    pip = package_index.pip_for(bare("2.10.0"), look_at(""))
    assert "uv's variables" in pip.note
    assert "2.10.0" in package_index.list_versions(bare(""), look_at(""))


def test_no_index_passes_its_packages_for_those_of_another_one(
    context: BuildContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for version in ("2.16.0.dev20261120+cpu", "2.16.0.dev20261121+cpu"):
        write_wheel(tmp_path / ("pytorch" if "1120" in version else "configured"), version)
    write_wheel(tmp_path / "configured", "1.0.0", project="besides", extra="")
    write_wheel(tmp_path / "pytorch", "9.0.0", project="besides", extra="")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    pytorch, configured = GatedIndex(tmp_path / "pytorch"), GatedIndex(tmp_path / "configured")
    with pytorch.serving(), configured.serving():
        for index in (pytorch, configured):
            index.open.set()
        monkeypatch.setattr(package_index, "NIGHTLIES", pytorch.address)
        for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
            monkeypatch.setenv(name, configured.address)
        ((made,), _) = built(context, bare("nightly", packages=("besides",), device="cpu"))
    assert isinstance(made, StoredEnvironment), made
    assert made.facts["packages"] == ["besides==1.0.0", "torch==2.16.0.dev20261120+cpu"]


def test_a_python_whose_pip_is_too_old_to_install_elsewhere_gets_one_inside(tmp_path: Path) -> None:
    base = look_at("")
    assert base.installs_elsewhere and "--without-pip" in base.venv(tmp_path)
    old = replace(base, installs_elsewhere=False)
    assert "--without-pip" not in old.venv(tmp_path)
    assert old.pip_of(tmp_path) == (f"{tmp_path}/bin/python", "-I", "-m", "pip")


def test_a_build_needs_no_pip_where_ensurepip_carries_one(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    base = look_at(str(venv / "bin/python"))
    assert base.pip[-1].endswith(".whl/pip")
    done = subprocess.run([*base.pip, "--version"], capture_output=True, text=True)
    assert done.stdout.startswith("pip "), done.stderr


@contextmanager
def guarded(wheels: Path, secret: str, store: Path) -> Iterator[tuple[str, list[str]]]:
    """A server of wheels that wants user `ada` with a password, and where else it saw the password.

    At each download it looks at the command lines of all processes, as every user of a machine can, and at
    what other users could read in the store.
    """
    seen: list[str] = []
    header = "Basic " + base64.b64encode(f"ada:{secret}".encode()).decode()

    class Handler(Quiet, SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(wheels))  # type: ignore[arg-type]

        def do_GET(self) -> None:
            if self.headers.get("Authorization") != header:
                self.send_response(401)
                self.send_header("WWW-Authenticate", "Basic")
                self.end_headers()
                return
            served.append(self.path)
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    if secret.encode() in (process / "cmdline").read_bytes():
                        seen.append(f"command line of {process.name}")
            for file in store.rglob("*"):
                with suppress(OSError):
                    if file.is_file() and secret.encode() in file.read_bytes():
                        owners.append(file.name)
                        seen.extend([str(file)] if file.stat().st_mode & 0o077 else [])
            super().do_GET()

    served: list[str] = []
    owners: list[str] = []
    with answering(Handler) as port:
        yield f"http://ada:{secret}@127.0.0.1:{port}", seen
    # Otherwise nothing was downloaded with the password, and nothing was looked at.
    assert len(served) == 2 and "requirements.txt" in owners


def test_the_password_of_a_wheel_is_seen_by_no_other_user(
    context: BuildContext, wheels: Path, local_wheels: Path
) -> None:
    secret = "s3cr3t-of-the-wheel"
    torch, other = "torch-2.9.1-py3-none-any.whl", "besides-1.0.0-py3-none-any.whl"
    with guarded(wheels, secret, context.store.folder) as (address, seen):
        recipe = Recipe(wheel=f"{address}/{torch}", packages=(f"besides @ {address}/{other}",), usual=False)
        ((made,), phases) = built(context, recipe)
        assert isinstance(made, StoredEnvironment), made
    assert seen == []
    assert made.facts["torch"] == "2.9.1" and "besides==1.0.0" in made.facts["packages"]
    assert secret not in f"{phases}{made}"
    left = [file for file in context.store.folder.rglob("*") if file.is_file() and not file.is_symlink()]
    assert [file for file in left if secret.encode() in file.read_bytes()] == []
    changed = replace(recipe, wheel=recipe.wheel.replace(secret, "another"), packages=recipe.packages)
    assert context.store.find(changed) == made


def test_a_log_of_a_pip_that_repeats_a_password_has_none(tmp_path: Path) -> None:
    log, lines = tmp_path / "build.log", list[str]()
    printed = "ERROR: no https://ada:s3cret@wheels.example/torch.whl; git+ssh://git@example.org/torch is one"
    ending = build_process.run(["echo", printed], log, {"PATH": os.environ["PATH"]}, 60.0, lines.append)
    expected = printed.replace("ada:s3cret@", "")
    assert ending.output == log.read_text() == f"{expected}\n" and lines == [expected]
    assert log.stat().st_mode & 0o777 == 0o644


def test_no_password_of_an_address_is_on_a_command_line() -> None:
    links = ("https://ada:s3cret@wheels.example/torch", "/srv/wheels")
    pip = package_index.pip_for(replace(bare("2.10.0"), find_links=links), look_at(""))
    assert pip.options == ("--find-links=/srv/wheels",)
    assert pip.variables["PIP_FIND_LINKS"].endswith(links[0])
