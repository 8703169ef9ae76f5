"""Session plans: how long to measure, in which environment, and which replicates together."""

from dataclasses import dataclass

from records.outcomes import PlannedReplicate


@dataclass(frozen=True, slots=True)
class Timing:
    """How long to measure. All durations are in seconds.

    A replicate takes blocks of about `block_seconds` until it has `min_blocks` of them and
    `measure_seconds` of measured time (or, for a step of nanoseconds, 100,000 iterations), but stops after
    `max_seconds` once it has `min_blocks // 2`, or took twice as many that did not count. Of inputs of
    several shapes each has to have been timed, too. On CUDA a block lasts 0.4 s, an observation 5 s at least.
    `deadline_seconds` bounds the whole active life of one replicate. With `trace_steps` above 0 nothing is
    measured: that many steps are run under torch.profiler instead. The first replicate of a case is observed
    for `observe_seconds` after it was timed. A block of which others took a larger share than
    `contention_limit` is taken again. The first `cold_replicates` of a compiled case find no compile cache,
    each later one what the last of them left. With `pair_error` above 0 two contenders of two environments
    take more rounds until what they say of each other has a standard error of at most that share, or until
    a cap (see `session` and `pairing`). Without `check` the answer is compared with no reference.
    """

    measure_seconds: float = 1.5
    block_seconds: float = 0.1
    min_blocks: int = 5
    max_seconds: float = 20.0
    warm_up_min_seconds: float = 0.3
    warm_up_max_seconds: float = 10.0
    observe_seconds: float = 0.0
    deadline_seconds: float = 600.0
    trace_steps: int = 0
    contention_limit: float = 1.0
    cold_replicates: int = 1
    pair_error: float = 0.0
    check: bool = True


@dataclass(frozen=True, slots=True)
class TargetEnvironment:
    """The environment a contender runs in: name, interpreter, fingerprint.

    `build` is the torch it had when the run began (see `messages.torch_build`); empty where it was not
    probed.
    """

    name: str
    python: str
    fingerprint: str
    build: str = ""


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """Contenders measured together."""

    id: str
    contenders: tuple[PlannedReplicate, ...]
