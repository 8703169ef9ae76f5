"""What dcgmi prints, in the forms its releases have had, and what is none of them."""

import pytest

from runner.telemetry.gpu.dcgm_output import Rows, Told, gpu_numbers, reason

HEADER = "#Entity         SMACT        SMOCC        TENSO        DRAMA        "
ALL = ("dcgm_sm_utilisation", "dcgm_sm_occupancy", "dcgm_tensor", "dcgm_dram_bandwidth")


def read(*lines: str) -> tuple[list[Told], Rows]:
    """The rows among these lines, and who read them."""
    rows = Rows()
    return [told for line in lines if (told := rows.read(line))], rows


@pytest.mark.parametrize(
    "lines",
    [
        (HEADER, "ID              ", "GPU 3           0.652        0.206        0.267        0.382        "),
        ("# Entity  SMACT  SMOCC  TENSO  DRAMA", "      Id", "   GPU 3  0.652  0.206  0.267  0.382"),
        ("#Entity   DRAMA   TENSO   SMOCC   SMACT", "ID", "GPU 3     0.382   0.267   0.206   0.652"),
        ("#Entity GRACT SMACT SMOCC TENSO DRAMA POWER", "ID W", "GPU 3 9.9 0.652 0.206 0.267 0.382 71"),
    ],
    ids=["since 2.4", "before 2.4", "in another order", "among others"],
)
def test_numbers_are_found_by_the_names_above_them(lines: tuple[str, ...]) -> None:
    (told,), rows = read(*lines)
    assert told.gpu == 3
    assert told.values == pytest.approx(dict(zip(ALL, (65.2, 20.6, 26.7, 38.2), strict=True)))
    assert rows.trouble(3) == ("" if "POWER" not in lines[0] else "dcgmi says: ID W")


def test_a_header_in_mid_stream_holds_from_there_on() -> None:
    row = "GPU 0 0.100 0.200 0.300 0.400"
    told, _ = read(HEADER, "ID", row, "", "#Entity DRAMA TENSO SMOCC SMACT", "ID", row)
    assert [each.values["dcgm_sm_utilisation"] for each in told] == pytest.approx([10, 40])


@pytest.mark.parametrize("word", ["N/A", "NAN", "INF", "1", "1e-3", "-0.100", "0.652...", "0,652", "1.001"])
def test_what_is_no_ratio_is_no_value_and_one_note(word: str) -> None:
    (told, after), rows = read(
        HEADER,
        *[f"GPU 0 {smact} 0.206 0.267 0.382" for smact in ("0.500", word)],
        f"GPU 0 {word} N/A N/A N/A",
    )
    assert {*told.values} == {*ALL} and {*after.values} == {*ALL[1:]}
    assert word in rows.trouble(0) and rows.trouble(1) == ""


def test_the_empty_start_of_a_watch_is_forgiven_when_numbers_come() -> None:
    empty, full = "GPU 0 N/A N/A N/A N/A", "GPU 0 0.100 0.200 0.300 0.400"
    told, rows = read(HEADER, empty)
    assert (told, rows.trouble(0)) == ([], "DCGM says N/A instead of a number")
    told, rows = read(HEADER, full, empty, full)
    assert (len(told), rows.trouble(0)) == (2, "")
    assert read(HEADER, full, empty, full, empty)[1].trouble(0)


@pytest.mark.parametrize(
    ("lines", "trouble"),
    [
        (["GPU 0 0.1 0.2 0.3 0.4"], "DCGM's rows do not match their header"),
        ([HEADER, "GPU 0 0.1 0.2 0.3"], "DCGM's rows do not match their header"),
        ([HEADER, "GPU 0 0.1 0.2 0.3 0.4 0.5"], "DCGM's rows do not match their header"),
        (["#Entity SMACT SMACT", "GPU 0 0.1 0.2"], "DCGM's rows do not match their header"),
        ([HEADER, "GPU-I 0 0.1 0.2 0.3 0.4"], "dcgmi says: GPU-I 0 0.1 0.2 0.3 0.4"),
        ([HEADER, "GPU 0 LINK 1 0.1 0.2 0.3"], "DCGM's rows do not match their header"),
        (["#Entity GRACT", "GPU 0 0.1"], "DCGM's header lacks DRAMA, SMACT, SMOCC, TENSO"),
    ],
)
def test_what_cannot_be_placed_is_left_out_with_a_reason(lines: list[str], trouble: str) -> None:
    told, rows = read(*lines)
    assert (told, rows.trouble(0)) == ([], trouble)


@pytest.mark.parametrize(
    ("said", "means"),
    [
        (
            "Error: Unable to connect to host engine. Host engine connection invalid/disconnected.",
            "no DCGM host engine answers",
        ),
        (
            "Error setting watches. Result: -36: Profiling is not supported for this group of GPUs or GPU",
            "DCGM has no hardware counters of this GPU",
        ),
        (
            "Error setting watches. Result: -33: This request is serviced by a module of DCGM that is not"
            " currently loaded",
            "DCGM's profiling module is not loaded",
        ),
        (
            "Error setting watches. Result: Unable to watch one or more of the requested fields because doing"
            " so requires the host engine to be running as root.",
            "the DCGM host engine does not run as root",
        ),
        ("\nsomething new\nmore", "dcgmi says: something new"),
        ("", "dcgmi says nothing"),
    ],
)
def test_errors_are_said_as_people_would(said: str, means: str) -> None:
    assert reason(said) == means


TABLES = """\
2 GPUs found.
+--------+----------------------------------------------------------------------+
| GPU ID | Device Information                                                   |
+--------+----------------------------------------------------------------------+
| 0      | Name: NVIDIA A100 80GB PCIe                                          |
|        | PCI Bus ID: 00000000:21:00.0                                         |
|        | Device UUID: GPU-E665046A-0000-0000-0000-000000000000                |
+--------+----------------------------------------------------------------------+
| 1      | Error: Cannot get device attributes for GPU.                         |
+--------+----------------------------------------------------------------------+
|        | Device UUID: GPU-of-nobody                                           |
+--------+----------------------------------------------------------------------+
| 12     | Name: NVIDIA A100 80GB PCIe                                          |
|        | Device UUID: GPU-9165ca67-0000-0000-0000-000000000000                |
+--------+----------------------------------------------------------------------+
1 NvSwitches found.
+-----------+
| Switch ID |
+-----------+
| 8         |
+-----------+
1 CPUs found.
+--------+----------------------------------------------------------------------+
| CPU ID | Device Information                                                   |
+--------+----------------------------------------------------------------------+
| 0      | Name: Grace                                                          |
+--------+----------------------------------------------------------------------+
"""


def test_gpus_are_numbered_by_uuid() -> None:
    assert gpu_numbers(TABLES) == {
        "e665046a-0000-0000-0000-000000000000": 0,
        "9165ca67-0000-0000-0000-000000000000": 12,
    }
    assert gpu_numbers("Error: Cannot get GPU list from remote node.") == {}


def test_two_gpus_that_cannot_be_told_apart_are_none() -> None:
    same_uuid = TABLES.replace("9165ca67", "e665046a")
    assert gpu_numbers(same_uuid) == {}
    same_number = TABLES.replace("| 12     |", "| 0      |")
    assert gpu_numbers(same_number) == {}
