"""The report as plain JSON values, by the schema in `upgrade.schema.json`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from analysis.comparison.case_results import CaseResult, CaseSide
from analysis.comparison.screening import MISSED_LIMIT, MISSED_SHARE, SCREEN_LIMIT
from analysis.comparison.verdict import Verdict
from analysis.decision.suite_decision import SuiteDecision
from analysis.decision.upgrade import Table
from analysis.geomean import Geomean
from analysis.kernel_difference import KernelChange
from analysis.metrics import METRICS
from analysis.ratios import ratio, share

from . import tables, wording
from .report_context import ComparedEnvironment, JudgedUpgrade, Subject, changes
from .rows import Row, rows, table_rows, techniques, without_ratio
from .scorecard import scorecard_json
from .text.reason_text import exclusion, sentence
from .text.verdict_text import left_out_because, open_because, ran_alone, side_reason

SCHEMA = "pyrometer.upgrade/1"


def upgrade_json(judged: JudgedUpgrade) -> dict[str, Any]:
    """The report as JSON values; numbers that are not finite are null.

    Ratios are new / old; `smallest` and `threshold` are shares, 0.01 for 1 %.
    """
    subject, upgrade, each = judged.subject, judged.upgrade, rows(judged)
    body = {
        "schema": SCHEMA,
        "decision": upgrade.decision,
        "headline": wording.headline(upgrade),
        "metric": subject.policy.metric,
        "reasons": [
            {
                "speaks": reason.speaks,
                "kind": reason.kind,
                "text": sentence(reason),
                "cases": reason.cases,
                "metric": reason.metric,
                "weight": reason.weight,
                "warning": reason.warning,
                "reproduce": [subject.reproduce(case) for case in reason.cases],
            }
            for reason in upgrade.reasons
        ],
        "to_decide": [
            {**asdict(one), "reproduce": subject.to_decide(one)} for one in subject.cases_to_decide(upgrade)
        ],
        "broken": [result.case for result in upgrade.broken],
        "repaired": [result.case for result in upgrade.repaired],
        "scorecard": scorecard_json(upgrade.scorecard, subject.policy),
        "overall": _mean(upgrade.overall),
        "techniques": [
            {
                "technique": row.technique,
                "mean": _mean(row.mean) if row.mean else None,
                "excluded": [case for case, _ in row.excluded],
            }
            for row in techniques(judged)
        ],
        "exclusions": [{"case": one.case, "reason": exclusion(one)} for one in upgrade.exclusions],
        "cases": [_case(row, subject) for row in each],
        "tables": [_table(table) for table in upgrade.tables],
        "environments": {
            "old": _environment(subject.old),
            "new": _environment(subject.new),
            "changes": [asdict(one) for one in changes(subject.old, subject.new)],
        },
        "dispatch": [one.to_body() for one in subject.dispatch],
        "kernels": [_kernels(row, changes) for row, changes in tables.moved_kernels(subject, each)],
        "step": {**subject.step.to_body(), "bisect": subject.bisect()} if subject.step else None,
        "run": _run(subject),
        "blockers": list(upgrade.blockers),
        "without_blockers": upgrade.without_blockers,
        "waived": [asdict(one) for one in upgrade.waived],
        "suite": _suite(upgrade.suite) if upgrade.suite else None,
        "screen": _screen(judged.results),
        "plan": asdict(subject.plan),
        "policy": asdict(subject.policy),
    }
    return plain_values(body)


def _suite(suite: SuiteDecision) -> dict[str, Any]:
    """The rules over the suite and the estimate of each case; changes are ratios, above 1 for worse."""
    return {
        "decision": suite.decision,
        "rules": [
            {"rule": one.rule, "state": one.state, "p": one.p, "level": one.level, "cases": list(one.cases)}
            for one in suite.rules
        ],
        "cases": [
            {
                "case": one.case,
                "n": one.n,
                "ratio": ratio(one.worse),
                "error": one.shared_error,
                "degrees_of_freedom": one.shared_degrees,
                "order_effect": ratio(one.order),
                "p_beyond_limit": one.refutes,
                "p_materially_worse": one.refutes_material,
                "modes": asdict(one.modes) if one.modes else None,
            }
            for one in suite.cases
        ],
    }


def _screen(results: Sequence[CaseResult]) -> dict[str, Any] | None:
    """The result of a screen for each case, and its error rates; None without a screen."""
    screened = [(one.case, one.screen) for one in results if one.screen is not None]
    if not screened:
        return None
    return {
        "limit": SCREEN_LIMIT,
        "missed_limit": MISSED_LIMIT,
        "missed_share": MISSED_SHARE,
        "cases": [
            {
                "case": case,
                "short_pairs": [ratio(change) for change in one.changes],
                "fingerprints_compared": one.compared,
                "full_pairs_because": one.selection,
            }
            for case, one in screened
        ],
    }


def _case(row: Row, subject: Subject) -> dict[str, Any]:
    result = row.result
    return {
        "case": row.case,
        "technique": result.technique,
        "status": row.status,
        "old": _side(result.old),
        "new": _side(result.new),
        "weight": subject.policy.weight(row.case),
        "pair_seconds": result.pair_seconds,
        "ran_alone": ran_alone(result),
        "verdict": _verdict(row.verdict) if row.verdict else None,
        "reproduce": subject.reproduce(row.case),
    }


def _side(side: CaseSide) -> dict[str, Any]:
    return {"status": side.status, "reason": side_reason(side)}


def _verdict(judged: Verdict) -> dict[str, Any]:
    metric = METRICS[judged.metric]
    return {
        "metric": judged.metric,
        "unit": metric.unit,
        "better": metric.better,
        "word": judged.word,
        "reason": open_because(judged),
        "n": judged.n,
        "left_out": [left_out_because(why) for why in judged.left_out],
        "old": judged.old,
        "new": judged.new,
        "ratio": ratio(judged.change),
        "ratio_low": ratio(judged.low),
        "ratio_high": ratio(judged.high),
        "confidence": judged.confidence,
        "p": judged.p,
        "smallest": share(judged.smallest),
        "threshold": share(judged.threshold),
        "needed": judged.needed,
    }


def _mean(found: Geomean) -> dict[str, Any]:
    return {
        "ratio": ratio(found.change),
        "ratio_low": ratio(found.low),
        "ratio_high": ratio(found.high),
        "confidence": found.confidence,
        "cases": found.cases,
        "pairs": found.pairs,
        "random_effects": [ratio(one) for one in found.typical] if found.typical else None,
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "metric": table.metric,
        "mean": _mean(table.geomean),
        "without_ratio": without_ratio(table),
        "cases": [{"case": case, "verdict": _verdict(judged)} for case, judged in table_rows(table)],
    }


def _kernels(row: Row, changes: Sequence[KernelChange]) -> dict[str, Any]:
    return {"case": row.case, "changes": [{**asdict(one), "change": one.word} for one in changes]}


def _environment(one: ComparedEnvironment) -> dict[str, Any]:
    return {**asdict(one), "asked": one.asked or one.name}


def _run(subject: Subject) -> dict[str, Any]:
    return {
        "id": subject.run,
        "state": subject.state,
        "started_at": subject.started_at.isoformat(),
        "ended_at": subject.ended_at.isoformat() if subject.ended_at else None,
        "suite": subject.suite,
        "machine": subject.machine,
        "hardware": subject.hardware,
        "device": subject.device,
        "preset": {"name": subject.preset, "settings": subject.settings},
        "harness": subject.harness,
        "pyrometer": subject.pyrometer,
        "command": subject.command,
        "notes": subject.notes,
    }


def plain_values(value: Any) -> Any:
    """JSON values: texts, finite numbers, lists, objects, null."""
    if isinstance(value, Mapping):
        return {str(name): plain_values(own) for name, own in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_values(own) for own in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    # A lone surrogate cannot be encoded in a file.
    return str(value).encode("utf-8", "replace").decode("utf-8")
