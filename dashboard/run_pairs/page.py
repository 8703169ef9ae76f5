"""Two runs compared: a hint, because they were not measured in turns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from dashboard.components import links, load, markup, parts, wording
from dashboard.components.query_params import Query, View, last, pick, unknown_value
from dashboard.header import page_context
from dashboard.regressions import findings
from dashboard.run_pairs import tables
from dashboard.run_pairs.comparison import (
    RunComparison,
    RunSide,
    Status,
    candidate,
    compare,
    metrics,
)
from dashboard.run_pairs.load import comparable, technique_pairs, version_pairs
from dashboard.server.database import database_at
from dashboard.server.settings import ServerSettings
from db.runs import run_changes
from records.kinds import RunState
from records.runs import RunSummary
from reports import sentences


@dataclass(frozen=True, slots=True)
class RunPairView(View):
    """Two runs by id, `a` the baseline, and a metric; for empty fields the page chooses."""

    context: ClassVar = ("metric",)
    home: ClassVar = links.RUN_PAIR
    # Another run may lack the metric.
    resets: ClassVar = {"a": ("metric",), "b": ("metric",)}

    a: str
    b: str
    metric: str = ""


#: Whether two runs, by their ids, have any case to compare.
Comparable = Callable[[str, str], bool]
#: The number of runs tried as the second one, and as the first one for each of those.
_TRIED, _TRIED_BEFORE = 5, 30


def run_pair(
    query: Query, newest: Sequence[RunSummary], exists: Callable[[str], bool], comparable: Comparable
) -> tuple[RunPairView | None, list[str]]:
    """The runs that `query` names, and complaints; None without two runs.

    `run`, given twice, names those that were selected in the list of runs, the newer first. The defaults are
    the newest run that has ended and the newest earlier one of the same suite and hardware that is
    `comparable`. `exists` tells whether an id is that of a run; `newest` are the runs to choose from.
    """
    ids = [run.id for run in newest]
    b, a, *more = [*query.get("run", ()), "", ""]
    wanted = {"a": last(query, "a") or a, "b": last(query, "b") or b}
    complaints = [
        unknown_value("run", run_id, ids) for run_id in wanted.values() if run_id and not exists(run_id)
    ]
    if any(more):
        complaints.append(
            "Only two runs can be compared: the page shows the newest two of the selected ones."
        )
    a, b = (run_id if run_id and exists(run_id) else "" for run_id in wanted.values())
    if not b:
        over = [run.id for run in newest if run.state != RunState.RUNNING]
        others = [run_id for run_id in (over if len(over) > 1 else ids) if run_id != a]
        pairs = ((a or _before(each, newest, comparable), each) for each in others[:_TRIED])
        b = next((each for one, each in pairs if one and comparable(one, each)), next(iter(others), ""))
    a = a or _before(b, newest, comparable)
    if not a or not b:
        return None, complaints
    return RunPairView(a, b, last(query, "metric") or ""), complaints


def _before(run_id: str, newest: Sequence[RunSummary], comparable: Comparable) -> str:
    """The newest run before it, of the same suite and hardware if there is one, and comparable with it if
    there is one.
    """
    at = next((place for place, run in enumerate(newest) if run.id == run_id), None)
    if at is None:
        return newest[0].id if newest else ""
    own, others = newest[at], [*newest[at + 1 :], *newest[:at]]
    alike = [run for run in others if (run.suite, run.hardware) == (own.suite, own.hardware)]
    # A night is compared with the night before, not with an upgrade in between.
    of_kind = [run for run in alike if run.kind == own.kind]
    in_order = list(dict.fromkeys(run.id for run in (*of_kind, *alike, *others)))
    fitting = (each for each in in_order[:_TRIED_BEFORE] if comparable(each, run_id))
    return next(fitting, next(iter(in_order), ""))


#: The number of runs to choose from.
_OFFERED = 100
#: The statuses of cases that differ by more than their noise, or whose noise is unknown.
_MOVED: tuple[Status, ...] = ("broke", "fixed", "outside", "no interval")


def show() -> None:
    """Show the two runs of the address, or the newest two that are comparable."""
    url = ServerSettings.from_environment().database_url
    query = parts.query()
    parts.title("Two runs")
    newest = load.recent_runs(url, limit=_OFFERED)
    selection, complaints = run_pair(
        _opening(url, query),
        newest,
        lambda run_id: load.run(url, run_id) is not None,
        lambda one, other: comparable(url, one, other),
    )
    if selection is None:
        parts.complain(complaints)
        words, command = "to compare it with. This measures another:", "pyrometer run --suite smoke"
        parts.no_match(len(newest), "Only one run", words, command)
        return
    a, b = _side(url, selection.a), _side(url, selection.b)
    options = {run.id: _run_label(run) for run in newest}
    for run_id in (selection.a, selection.b):
        older = load.run(url, run_id) if run_id not in options else None
        options.setdefault(run_id, _run_label(older[1]) if older else run_id)
    definitions = load.metric_definitions(url)
    both = metrics(a, b, definitions) if a is not None and b is not None else {}
    ids = page_context.complete_query(query, RunPairView.context, lambda query: _metric(query, both)[1])
    if both:
        metric, more = _metric(ids, both)
        selection = replace(selection, metric=metric)
        complaints += more
    parts.complain(complaints)
    with page_context.bar("/compare", query, ids):
        parts.select("A, the baseline", "a", options, selection)
        parts.select("B", "b", options, selection)
        if both:
            parts.select("Metric", "metric", both, selection)
    if a is None or b is None or not both:
        parts.caption("The two runs have no metric in common.")
        return
    parts.tab_title(f"{selection.a} against {selection.b}")
    comparison = compare(a, b, selection.metric)
    _headline(comparison, definitions)
    _cases(comparison, definitions)
    _kernels(comparison)
    _differences(url, comparison)
    parts.permanent_link(selection.address)


def _opening(url: str, query: Query) -> Query:
    """The query, with two runs that share many cases where it names none and no run is our own."""
    if load.own_runs(url, 1) or any(query.get(name) for name in ("a", "b", "run")):
        return query
    pair = next(iter((*version_pairs(url), *technique_pairs(url))), None)
    return query if pair is None else {**query, "a": [pair.a], "b": [pair.b]}


def _run_label(run: RunSummary) -> str:
    """The label of a run to choose: suite, hardware, PyTorch, and id."""
    torch = " ".join(map(wording.version, run.torch_versions))
    return " · ".join(part for part in (run.suite, wording.hardware(run.hardware), torch, run.id) if part)


def _metric(query: Query, both: Mapping[str, str]) -> tuple[str, list[str]]:
    """The metric of a query, one of those of `both` runs, and complaints."""
    complaints: list[str] = []
    default = "latency_floor" if "latency_floor" in both else next(iter(both), "")
    return pick(query, "metric", list(both), default, complaints), complaints


def _side(url: str, run_id: str) -> RunSide | None:
    """A run in its candidate; None for one without an environment."""
    stored_run = load.run(url, run_id)
    environment = None if stored_run is None else candidate(stored_run[0])
    if stored_run is None or environment is None:
        return None
    return RunSide(stored_run[0], environment, load.outcomes(url, run_id), load.measurements(url, run_id))


def _headline(comparison: RunComparison, definitions: wording.Definitions) -> None:
    """Show the overall difference, and the note that it is a hint."""
    parts.html(
        "".join(
            f"<p>{markup.link(links.run(side.run.id), f'{letter}: {tables.title_of(side)}')}</p>"
            for letter, side in (("A", comparison.a), ("B", comparison.b))
        )
    )
    unlike = tables.differences(comparison)
    also = f" Also different: {', '.join(unlike)}." if unlike else ""
    drift = "The runs were not A/B interleaved: every change includes drift of the machine."
    parts.html(
        markup.verdict("quiet", "~", "Hint", tables.headline(comparison, definitions), f"{drift}{also}")
    )
    if command := tables.paired_command(comparison):
        parts.caption("This measures both A/B interleaved and gives a verdict:")
        parts.code(command)


def _cases(comparison: RunComparison, definitions: wording.Definitions) -> None:
    """Show broken cases and cases outside the noise; those within it are folded."""
    every = tables.changes(comparison, "Cases of both runs", comparison.cases, definitions)
    parts.heading("What differs", every, f"runs-{comparison.a.run.id}-{comparison.b.run.id}.csv")
    if common := wording.all_cases(wording.common_parameters(one.case for one in comparison.cases)):
        parts.html(markup.paragraph(common))
    changes = comparison.with_status(*_MOVED)
    if changes:
        parts.table(tables.changes(comparison, "What differs", changes, definitions))
    elif comparison.with_status("within"):
        parts.caption("No case differs by more than its noise.")
    rest = {
        "not measured": comparison.with_status("not measured"),
        "within noise": comparison.with_status("within"),
        "broken in both": comparison.with_status("broken in both"),
    }
    for title, rows in rest.items():
        if rows:
            with parts.expander(f"{len(rows):,} {title}"):
                parts.table(tables.changes(comparison, title, rows, definitions))
    if comparison.only_a or comparison.only_b:
        parts.caption(f"Only in A: {comparison.only_a:,} cases. Only in B: {comparison.only_b:,}.")


def _kernels(comparison: RunComparison) -> None:
    """Show the GPU kernels of the differing cases, if both runs have them."""
    table = tables.kernels(comparison, comparison.with_status(*_MOVED))
    name = f"kernels-{comparison.a.run.id}-{comparison.b.run.id}.csv"
    parts.table_section("GPU kernels", table, name, sentences.KERNELS)


def _differences(url: str, comparison: RunComparison) -> None:
    """Show the differences of machine, harness, preset and packages."""
    changes = findings.changes(
        run_changes.run_changes(database_at(url), comparison.a.run.id, comparison.b.run.id)
    )
    parts.table_section("What else differs", changes, f"changes-{comparison.b.run.id}.csv")
