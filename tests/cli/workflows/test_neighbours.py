"""`--neighbour` and `pyrometer lend`: what is refused at once, and the secret."""

import stat
from pathlib import Path

import pytest
from in_process import typed
from measuring_site import LINEAR, Site

from cli.workflows.neighbours import check_addresses, check_needed, make_secret, secret_in
from workflows.errors import UsageError

OVER_TWO = "linear/train/width=8/nodes=2,parallel=ddp,ranks=2"


@pytest.mark.parametrize(
    ("addresses", "sentence"),
    [
        (["gpu-b"], "--neighbour 'gpu-b' is not HOST:PORT"),
        (["gpu-b:7391", "gpu-b:7391"], "--neighbour names one machine twice"),
    ],
)
def test_what_cannot_be_an_address_is_refused(addresses: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=f"^{sentence}$"):
        check_addresses(addresses)


@pytest.mark.parametrize(
    ("cases", "many", "sentence"),
    [
        ([LINEAR], 1, "--neighbour: no case of this run is spread over several machines (axis nodes)"),
        ([LINEAR, OVER_TWO], 2, "--neighbour: no case of this run needs more than 1 of them"),
    ],
)
def test_nobody_is_borrowed_to_stand_idle(cases: list[str], many: int, sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_needed(cases, ["gpu-b:1", "gpu-c:1"][:many])
    assert str(refused.value) == sentence
    check_needed([OVER_TWO], ["gpu-b:1"])
    check_needed([], [])


def test_a_secret_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "lending" / "secret"
    assert make_secret(file)
    secret = secret_in(file)
    assert len(secret) == 64
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not make_secret(file)
    assert secret_in(file) == secret


def test_a_secret_that_is_missing_or_can_be_guessed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    with pytest.raises(UsageError, match=f"^there is no secret in {file}: copy the file that "):
        secret_in(file)
    file.write_text("hush\n")
    with pytest.raises(UsageError, match=r"has fewer than 16 letters: it can be guessed$") as refused:
        secret_in(file)
    assert "hush" not in str(refused.value)


def test_the_commands_say_so_in_one_sentence(site: Site) -> None:
    wrong = site.call("run", "--neighbour", "gpu-b").one_sentence()
    assert wrong == "pyrometer: --neighbour 'gpu-b' is not HOST:PORT"
    other = typed(site, "run", "--resume", "latest", "--neighbour", "gpu-b:1").one_sentence()
    assert other == "pyrometer: --resume goes on with what was planned; it takes no other selection"
    nowhere = typed(site, "lend", "--listen", "7391").one_sentence()
    assert nowhere == "pyrometer: --listen '7391' is not HOST:PORT"
    assert not (site.folder / ".pyrometer/lending").exists()
