"""What a case is set against, so that a ratio says what its technique brings."""

from records.references import Baseline

from ..worker.case_key import CaseKey, CaseKeyError


def baselines(case: str) -> tuple[Baseline, ...]:
    """What the case called `case` is set against; nothing for a baseline or a text that is no key."""
    try:
        key = CaseKey.parse(case)
    except CaseKeyError:
        return ()
    if key == key.eager:
        return ()
    eager = (str(key.eager),)
    # Of several processes, memory is that of the one that needs most.
    memory = Baseline("memory", eager)
    if key.count("instances") > 1:
        kinds = (("speed-up", eager), ("one process", _one_process(key)))
        return (*(Baseline(kind, cases, estimator="throughput") for kind, cases in kinds), memory)
    speed_up = Baseline("speed-up", eager)
    if key.axis("parallel") == "none":
        return speed_up, memory, Baseline("size", eager)
    if key.count("ranks") == 1:
        return speed_up, memory
    return speed_up, Baseline("efficiency", _one_rank(key), key.count("ranks")), memory


def _one_rank(key: CaseKey) -> tuple[str, ...]:
    # Alone, a rank has the whole batch either way, who started it makes no step faster, and how it would
    # talk to others makes none either.
    nearest = key.under(ranks="1", nodes="1")
    weak = nearest.under(scaling="weak")
    spawned = weak.under(launcher="spawn")
    return _keys(nearest, weak, spawned, spawned.under(hook="none", bucket="25", ddp="plain"))


def _one_process(key: CaseKey) -> tuple[str, ...]:
    single = key.under(instances="1")
    if key.axis("threads") == "profile":
        # Instances share all the cores out, and one process has a thread on each.
        return _keys(single, single.under(cpus="all"))
    single = single.under(threads=str(key.count("instances") * key.count("threads")))
    everywhere = single.under(cpus="all")
    return _keys(single, everywhere, everywhere.under(threads="profile"))


def _keys(*keys: CaseKey) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(str, keys)))
