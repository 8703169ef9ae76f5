"""Settings and build of a card that change its numbers (limits, clocks, modes, links), and its health.

Nothing of the state changes by itself from one night to the next; health does. What a card or a driver does
not tell is left out.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .nvml import Absent, N, ask, text

_SYS = Path("/sys")
_MODES = {0: "off", 1: "on"}
_COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
#: More links than any card has (nvml.h, NVML_NVLINK_MAX_LINKS).
_MOST_LINKS = 18


def card_state(handle: Any, parent: Any = None, root: Path = _SYS) -> dict[str, Any]:
    """The state of a GPU, or of a MIG device with that of its `parent`; `root` is that of sysfs.

    Power in W, clocks in MHz.
    """
    whole = handle if parent is None else parent
    queries: Mapping[str, Callable[[], Any]] = {
        "power_limit_w": lambda: _watts(ask(N.nvmlDeviceGetEnforcedPowerLimit, whole)),
        "default_power_limit_w": lambda: _watts(ask(N.nvmlDeviceGetPowerManagementDefaultLimit, whole)),
        "max_sm_clock_mhz": lambda: ask(N.nvmlDeviceGetMaxClockInfo, whole, N.NVML_CLOCK_SM),
        "max_memory_clock_mhz": lambda: ask(N.nvmlDeviceGetMaxClockInfo, whole, N.NVML_CLOCK_MEM),
        "boost_clock_mhz": lambda: ask(N.nvmlDeviceGetMaxCustomerBoostClock, whole, N.NVML_CLOCK_SM),
        "application_clock_mhz": lambda: ask(N.nvmlDeviceGetApplicationsClock, whole, N.NVML_CLOCK_SM),
        "ecc": lambda: _current(ask(N.nvmlDeviceGetEccMode, whole)),
        "persistence": lambda: _word(_MODES, ask(N.nvmlDeviceGetPersistenceMode, whole)),
        "compute_mode": lambda: _word(_COMPUTE_MODES, ask(N.nvmlDeviceGetComputeMode, whole)),
        "mig": lambda: _current(ask(N.nvmlDeviceGetMigMode, whole)),
        "mig_device": lambda: None if parent is None else text(ask(N.nvmlDeviceGetName, handle)),
        "confidential_computing": _confidential,
        "vbios": lambda: text(ask(N.nvmlDeviceGetVbiosVersion, whole)),
        "pcie_generation": lambda: ask(N.nvmlDeviceGetMaxPcieLinkGeneration, whole),
        "pcie_width": lambda: ask(N.nvmlDeviceGetCurrPcieLinkWidth, whole),
        "nvlinks": lambda: _active_links(whole),
        "numa_node": lambda: _numa_node(whole, root),
    }
    return _collect_answers(queries)


def card_health(handle: Any, parent: Any = None) -> dict[str, Any]:
    """ECC errors that could not be corrected, remapped rows of memory, and lanes of PCIe.

    Errors since the driver was loaded and in the life of the card. `pcie_width_possible` is what the card and
    its slot have together.
    """
    whole = handle if parent is None else parent
    rows = ask(N.nvmlDeviceGetRemappedRows, whole)

    def count_ecc_errors(counter: int) -> Any:
        return ask(N.nvmlDeviceGetTotalEccErrors, whole, N.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, counter)

    queries: Mapping[str, Callable[[], Any]] = {
        "uncorrected_ecc_errors": lambda: count_ecc_errors(N.NVML_VOLATILE_ECC),
        "uncorrected_ecc_errors_ever": lambda: count_ecc_errors(N.NVML_AGGREGATE_ECC),
        "remapped_rows": lambda: rows if _absent(rows) else rows[0] + rows[1],
        "row_remap_pending": lambda: rows if _absent(rows) else bool(rows[2]),
        "row_remap_failed": lambda: rows if _absent(rows) else bool(rows[3]),
        "pcie_width": lambda: ask(N.nvmlDeviceGetCurrPcieLinkWidth, whole),
        "pcie_width_possible": lambda: ask(N.nvmlDeviceGetMaxPcieLinkWidth, whole),
    }
    return _collect_answers(queries)


def _collect_answers(queries: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """The answers that there are."""
    answers = {name: call() for name, call in queries.items()}
    return {name: value for name, value in answers.items() if not _absent(value) and value not in (None, "")}


def _absent(value: Any) -> bool:
    return isinstance(value, Absent)


def _watts(milliwatts: Any) -> Any:
    return milliwatts if isinstance(milliwatts, Absent) else milliwatts / 1000


def _word(words: Mapping[int, str], answer: Any) -> Any:
    return answer if isinstance(answer, Absent) else words.get(int(answer), str(answer))


def _current(answer: Any) -> Any:
    """NVML answers the current mode, and the one after the next reboot."""
    return answer if isinstance(answer, Absent) else _word(_MODES, answer[0])


def _confidential() -> Any:
    state = ask(N.nvmlSystemGetConfComputeState)
    return state if isinstance(state, Absent) else _word(_MODES, state.ccFeature)


def _active_links(handle: Any) -> int | None:
    """The NVLinks that are up; None for a card without any."""
    states = [ask(N.nvmlDeviceGetNvLinkState, handle, link) for link in range(_MOST_LINKS)]
    states_up = [int(state) for state in states if not isinstance(state, Absent)]
    return sum(states_up) if states_up else None


def _numa_node(handle: Any, root: Path) -> int | None:
    """The NUMA node that the card is attached to; None where sysfs does not say."""
    pci = ask(N.nvmlDeviceGetPciInfo, handle)
    if isinstance(pci, Absent):
        return None
    # NVML writes the domain with eight digits, sysfs with four.
    address = text(pci.busId).lower()[-12:]
    try:
        node = int((root / "bus/pci/devices" / address / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None
