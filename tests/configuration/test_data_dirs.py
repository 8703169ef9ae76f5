"""Where data goes when the wanted place refuses it, on real folders and as a user without rights."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from configuration.data_dirs import DataDirs, environments_folder, resolve_places
from configuration.errors import UnwritablePlace
from configuration.reading import FILE_NAME
from configuration.settings import load_settings
from support.small_disk import small_disk_at

UNPRIVILEGED = 65534


@pytest.fixture
def world() -> Iterator[Path]:
    """A folder that any user may pass through, with `closed`, where this user may write nothing, and `home`.

    Both are project folders.

    Root may write everywhere, so root becomes nobody for the length of the test.
    """
    root = Path(tempfile.mkdtemp(prefix="pyrometer-places-"))
    root.chmod(0o755)
    for name in ("closed", "home"):
        (root / name).mkdir()
        (root / name / FILE_NAME).touch(0o666)
        (root / name / FILE_NAME).chmod(0o666)
    is_root = os.geteuid() == 0
    groups = os.getgroups()
    if is_root:
        os.chown(root / "home", UNPRIVILEGED, UNPRIVILEGED)
        os.setgroups([])
        os.setresuid(UNPRIVILEGED, UNPRIVILEGED, 0)
    else:
        (root / "closed").chmod(0o555)
    try:
        yield root
    finally:
        if is_root:
            os.setresuid(0, 0, 0)
            os.setgroups(groups)
        (root / "closed").chmod(0o755)
        shutil.rmtree(root)


def resolve(cwd: Path, home: Path, **variables: str) -> DataDirs:
    """The places found from `cwd` by a user whose home is `home`."""
    environ = {"HOME": str(home), **variables}
    return resolve_places(load_settings(cwd=cwd, environ=environ), environ=environ)


def test_a_writable_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / ".pyrometer").mkdir()
    places = resolve(tmp_path, tmp_path / "home")
    assert places == DataDirs(tmp_path / ".pyrometer", f"sqlite:///{tmp_path}/pyrometer.db", ())
    assert list(tmp_path.iterdir()) == [tmp_path / ".pyrometer"]
    assert list(places.data_dir.iterdir()) == []


def test_an_empty_folder_stays_empty_and_data_goes_to_the_users_folders(tmp_path: Path) -> None:
    home, empty = tmp_path / "home", tmp_path / "empty"
    home.mkdir()
    empty.mkdir()
    settings = load_settings(cwd=empty, environ={"HOME": str(home)})
    state = home / ".local" / "state" / "pyrometer"
    places = resolve_places(settings, environ={"HOME": str(home)})
    assert places == DataDirs(state, f"sqlite:///{state}/pyrometer.db", ())
    assert environments_folder(settings, places.data_dir) == home / ".cache" / "pyrometer" / "environments"
    assert list(empty.iterdir()) == [] and not settings.in_project
    chosen = {"XDG_STATE_HOME": str(home / "s"), "XDG_CACHE_HOME": str(home / "c")}
    settings = load_settings(cwd=empty, environ=chosen)
    assert (settings.data_dir, settings.environments_dir) == (
        home / "s" / "pyrometer",
        home / "c" / "pyrometer" / "environments",
    )


@pytest.mark.parametrize("marker", [".pyrometer", "pyrometer.db", "pyrometer.toml"])
def test_what_makes_a_folder_a_project(tmp_path: Path, marker: str) -> None:
    (tmp_path / marker).touch()
    settings = load_settings(cwd=tmp_path, environ={"HOME": str(tmp_path / "home")})
    assert settings.in_project
    assert settings.database_url == f"sqlite:///{tmp_path}/pyrometer.db"
    assert settings.environments_dir == tmp_path / ".pyrometer" / "environments"


def test_a_place_that_a_variable_names_makes_the_folder_a_project(tmp_path: Path) -> None:
    settings = load_settings(cwd=tmp_path, environ={"PYROMETER_DATA_DIR": "data", "HOME": str(tmp_path)})
    assert settings.data_dir == tmp_path / "data"
    assert settings.database_url == f"sqlite:///{tmp_path}/pyrometer.db"
    assert settings.environments_dir == tmp_path / "data" / "environments"


def test_outside_a_project_a_closed_state_folder_is_one_sentence(world: Path) -> None:
    (world / "home" / FILE_NAME).unlink()
    with pytest.raises(UnwritablePlace) as caught:
        resolve(world / "home", world / "closed")
    state = world / "closed" / ".local" / "state" / "pyrometer"
    assert str(caught.value) == (
        f"{state} cannot be written (Permission denied): choose a place with PYROMETER_DATA_DIR"
    )


def test_a_closed_folder_is_replaced_by_the_state_folder_with_a_note(world: Path) -> None:
    state = world / "home" / ".local" / "state" / "pyrometer"
    places = resolve(world / "closed", world / "home")
    assert places.data_dir == state
    assert places.database_url == f"sqlite:///{state}/pyrometer.db"
    data, database = places.notes
    assert data == (
        f"{world}/closed/.pyrometer cannot be written (Permission denied), so data goes to {state}; "
        "PYROMETER_DATA_DIR chooses another place"
    )
    assert database.startswith(
        f"{world}/closed/pyrometer.db cannot be written (Permission denied), so the database"
    )


def test_two_commands_in_one_folder_agree(world: Path) -> None:
    assert resolve(world / "closed", world / "home") == resolve(world / "closed", world / "home")


def test_the_state_folder_is_where_the_user_says_unless_it_is_relative(world: Path) -> None:
    chosen = world / "home" / "state"
    assert (
        resolve(world / "closed", world / "home", XDG_STATE_HOME=str(chosen)).data_dir == chosen / "pyrometer"
    )
    relative = resolve(world / "closed", world / "home", XDG_STATE_HOME="state")
    assert relative.data_dir == world / "home" / ".local" / "state" / "pyrometer"


def test_each_place_is_judged_by_itself(world: Path) -> None:
    places = resolve(world / "closed", world / "home", PYROMETER_DATA_DIR=str(world / "home" / "data"))
    assert places.data_dir == world / "home" / "data"
    assert places.database_url.endswith("/.local/state/pyrometer/pyrometer.db")
    assert len(places.notes) == 1


def test_neither_place_can_be_written(world: Path) -> None:
    with pytest.raises(UnwritablePlace) as caught:
        resolve(world / "closed", world / "closed")
    assert f"neither {world}/closed/.pyrometer (Permission denied) nor {world}/closed/.local" in str(
        caught.value
    )
    assert str(caught.value).endswith("choose a place with PYROMETER_DATA_DIR")


@pytest.mark.parametrize(
    ("variable", "value", "start"),
    [
        (
            "PYROMETER_DATA_DIR",
            "{}/closed/data",
            "data_dir {}/closed/data cannot be written (Permission denied)",
        ),
        (
            "PYROMETER_DATABASE_URL",
            "sqlite:///{}/closed/x.db",
            "database_url {}/closed/x.db cannot be written",
        ),
    ],
)
def test_a_chosen_place_is_never_replaced(world: Path, variable: str, value: str, start: str) -> None:
    with pytest.raises(UnwritablePlace) as caught:
        resolve(world / "home", world / "home", **{variable: value.format(world)})
    assert str(caught.value).startswith(start.format(world))
    assert str(caught.value).endswith(f"choose another with {variable}")


def test_a_place_chosen_in_the_file_is_never_replaced(world: Path) -> None:
    (world / "home" / "pyrometer.toml").write_text('data_dir = "../closed/data"')
    with pytest.raises(UnwritablePlace, match=r"^data_dir .*/closed/data cannot be written"):
        resolve(world / "home", world / "home")


def test_a_read_only_database_in_a_writable_folder(world: Path) -> None:
    work = world / "home" / "work"
    work.mkdir()
    (work / "pyrometer.db").touch(mode=0o444)
    places = resolve(work, world / "home")
    assert places.data_dir == work / ".pyrometer"
    assert places.database_url.endswith("/.local/state/pyrometer/pyrometer.db")
    assert (work / "pyrometer.db").exists()


def test_a_reader_gets_the_database_of_a_closed_folder_until_runs_are_stored_elsewhere(world: Path) -> None:
    work, home = world / "home" / "work", world / "home"
    work.mkdir()
    (work / "pyrometer.db").touch(mode=0o444)
    environ = {"HOME": str(home)}
    settings = load_settings(cwd=work, environ=environ)
    read = resolve_places(settings, reading=True, environ=environ)
    assert read.database_url == f"sqlite:///{work}/pyrometer.db" and read.notes == ()
    written = resolve_places(settings, environ=environ)
    Path(written.database_url.removeprefix("sqlite:///")).touch()
    assert resolve_places(settings, reading=True, environ=environ) == written != read


def test_a_reader_takes_a_closed_data_folder_where_there_is_no_other(world: Path) -> None:
    closed = world / "closed"
    url = {"PYROMETER_DATABASE_URL": "postgresql://host/name"}
    environ = {"HOME": str(closed), "PYROMETER_DATA_DIR": str(closed), **url}
    settings = load_settings(cwd=world / "home", environ=environ)
    read = resolve_places(settings, reading=True, environ=environ)
    assert (read.data_dir, read.notes) == (closed, ())
    with pytest.raises(UnwritablePlace):
        resolve_places(settings, environ=environ)
    environ["PYROMETER_DATA_DIR"] = str(closed / "missing")
    with pytest.raises(UnwritablePlace):
        resolve_places(load_settings(cwd=world / "home", environ=environ), reading=True, environ=environ)


def test_root_is_not_fooled_by_permission_bits(tmp_path: Path) -> None:
    # No user, root included, can make files in /proc, though its permission bits let root write.
    environ = {"HOME": str(tmp_path)}
    settings = load_settings(Path("/proc") / FILE_NAME, environ=environ, content=b"")
    places = resolve_places(settings, environ=environ)
    assert places.data_dir == tmp_path / ".local" / "state" / "pyrometer"
    assert len(places.notes) == 2


def test_a_file_in_the_folders_place(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".pyrometer").touch()
    (tmp_path / "work" / "pyrometer.db").mkdir()
    data, database = resolve(tmp_path / "work", tmp_path).notes
    assert os.strerror(errno.EEXIST) in data
    assert os.strerror(errno.EISDIR) in database


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system without room for one more file."""
    with small_disk_at(tmp_path / "disk", "size=64k,nr_inodes=3") as disk:
        (disk / "work").mkdir()
        (disk / "work" / "filler").touch()
        with pytest.raises(OSError, match="No space left"):
            (disk / "work" / "one more").touch()
        yield disk / "work"


def test_a_full_disk_is_still_the_right_place(full_disk: Path, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    settings = load_settings(full_disk / FILE_NAME, environ=environ, content=b"")
    places = resolve_places(settings, environ=environ)
    assert places == DataDirs(full_disk / ".pyrometer", f"sqlite:///{full_disk}/pyrometer.db", ())


def test_a_server_has_no_folder_to_try(tmp_path: Path) -> None:
    url = "postgresql://user@host/name"
    assert resolve(tmp_path, tmp_path, PYROMETER_DATABASE_URL=url).database_url == url
