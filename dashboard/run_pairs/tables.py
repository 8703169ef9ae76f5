"""Texts and tables of two compared runs; nothing is coloured, because nothing is proved."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from dashboard.components import links, markup, query_params, wording
from dashboard.run_pairs.comparison import RunCaseChange, RunComparison, RunSide
from records.kinds import RunKind, RunSource
from reports.table import Column, DataTable
from reports.tables import CaseKernel, kernels_of_cases
from reports.text.numbers import percent
from workflows.planning.select_cases import CHOSEN

#: The most cases in a table; the CSV file has all.
_MOST = 100


def headline(comparison: RunComparison, definitions: wording.Definitions | None = None) -> str:
    """The overall result of the second run against the first, over the cases of both."""
    broke = comparison.with_status("broke")
    parts = [f"{wording.plural(len(broke), 'case')} broke"] if broke else []
    metric = wording.metric(comparison.metric, definitions)
    if comparison.mean is not None:
        many = sum(one.ratio is not None for one in comparison.cases)
        over = f"over {wording.plural(many, 'case')} (geomean)"
        better = f", {metric.better} is better" if metric.better != "neither" else ""
        parts.append(f"{metric.title.lower()} {percent(math.log(comparison.mean))} {over}{better}")
        compared_cases = comparison.with_status("outside", "within")
        outside = f"{len(comparison.with_status('outside')):,} outside noise"
        parts.append(outside if compared_cases else "one replicate each, so the noise is not known")
    text = "; ".join(parts) or "no case has a number in both runs"
    return f"{text[:1].upper()}{text[1:]}."


def differences(comparison: RunComparison) -> list[str]:
    """What of the conditions differs, and so is part of every change besides what is compared."""
    a, b = comparison.a.run, comparison.b.run
    hardware = a.machine.hardware, b.machine.hardware
    pairs = {
        "hardware": tuple(each.fingerprint for each in hardware),
        "machine": (a.machine.fingerprint, b.machine.fingerprint),
        "preset": (a.preset.fingerprint, b.preset.fingerprint),
        "harness": (a.harness, b.harness),
    }
    unlike: list[str] = []
    if comparison.techniques:
        unlike.append(f"technique ({' → '.join(comparison.techniques)})")
        versions = [side.environment.torch_version or wording.NONE for side in (comparison.a, comparison.b)]
        # Of one technique it is what is compared.
        unlike += [f"PyTorch ({' → '.join(versions)})"] if versions[0] != versions[1] else []
    return [*unlike, *(name for name, (one, other) in pairs.items() if one != other)]


def paired_command(comparison: RunComparison) -> str:
    """What measures the same in turns; empty where it is not two versions of PyTorch on one hardware.

    Nor does anything measure a trace in turns, or two techniques of two versions.
    """
    a, b = comparison.a, comparison.b
    versions = [query_params.public(side.environment.torch_version) for side in (a, b)]
    alike = a.run.machine.hardware.fingerprint == b.run.machine.hardware.fingerprint
    unlike = any(side.run.source != RunSource.MEASURED or side.run.kind == RunKind.TRACE for side in (a, b))
    if comparison.techniques or not all(versions) or versions[0] == versions[1] or not alike or unlike:
        return ""
    # A run of single cases has no suite.
    options = [part for one in comparison.cases for part in ("--case", one.case)]
    cases = options if b.run.suite == CHOSEN else ["--suite", b.run.suite]
    return shlex.join(["pyrometer", "upgrade", *versions, *cases])


def changes(
    comparison: RunComparison,
    title: str,
    cases: Sequence[RunCaseChange],
    definitions: wording.Definitions | None = None,
) -> DataTable[RunCaseChange]:
    """Cases with both numbers, and the comparison with their noise."""
    metric = wording.metric(comparison.metric, definitions)
    unit = f", {metric.unit}" if metric.unit not in ("", "count", "share") else ""

    def number(which: str) -> Column[RunCaseChange]:
        side = comparison.a if which == "old" else comparison.b

        def cell(one: RunCaseChange) -> Markup:
            measurement = one.old if which == "old" else one.new
            if measurement is None:
                status = one.old_status if which == "old" else one.new_status
                return Markup(markup.chip(status)) if status != "ok" else Markup(wording.NONE)
            ends = wording.value_range(measurement.low, measurement.high, metric.unit)
            key = one.old_case if which == "old" and one.old_case else one.case
            return Markup('<a href="{}" target="_self">{}</a><small>{}</small>').format(
                links.result(side.run.id, key, side.environment.fingerprint),
                wording.number(measurement.point, metric.unit),
                f"n {measurement.n}" if measurement.low is None else f"{ends}, n {measurement.n}",
            )

        letter = "A" if which == "old" else "B"
        return Column(which, f"{letter}{unit}", lambda one: _point(one, which), cell, number=True)

    common = wording.common_parameters(one.case for one in comparison.cases)
    columns: list[Column[RunCaseChange]] = [
        Column("case", "Case", lambda one: one.case, lambda one: Markup(markup.case(one.case, common))),
        Column("old_case", value=lambda one: one.old_case or one.case),
        number("old"),
        number("new"),
        Column("ratio", "Change", lambda one: one.ratio, _change, number=True),
        Column("status", "Noise", lambda one: one.status, _status),
        Column("old_status", value=lambda one: one.old_status),
        Column("new_status", value=lambda one: one.new_status),
        Column("reason", value=lambda one: one.reason),
    ]
    return DataTable(title, columns, cases, _MOST, "more cases: the CSV file has them.")


def kernels(comparison: RunComparison, cases: Sequence[RunCaseChange]) -> DataTable[CaseKernel]:
    """The GPU kernels that differ most in each of these cases, where both runs have them."""
    common = wording.common_parameters(one.case for one in comparison.cases)
    table = kernels_of_cases(
        comparison.kernels, [one.case for one in cases], lambda case: Markup(markup.case(case, common))
    )
    return replace(table, most=_MOST)


def _point(one: RunCaseChange, which: str) -> float | None:
    measurement = one.old if which == "old" else one.new
    return None if measurement is None else measurement.point


def _change(one: RunCaseChange) -> str:
    return wording.NONE if one.ratio is None else percent(math.log(one.ratio))


def _status(one: RunCaseChange) -> Markup:
    words = {"outside": "outside noise", "within": "within noise", "no interval": "one replicate: no range"}
    text = Markup("{}").format(words.get(one.status, one.status))
    return text + Markup("<small>{}</small>").format(one.reason) if one.reason else text


def title_of(side: RunSide) -> str:
    """A run as text: PyTorch, suite, hardware and time."""
    torch = side.environment.torch_version or side.environment.name
    run = side.run
    when = wording.run_time(run.id, run.started_at)
    where = wording.hardware(run.machine.hardware.label)
    return f"{wording.build(torch)} · {run.suite} · {where} · {when}"
