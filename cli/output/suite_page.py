"""The built-in suites as Markdown: a table for docs/suite.md, and every case with what it tests."""

from collections.abc import Iterable

from records.references import Claim
from runner.suites.references import all_claims, claims_for
from runner.suites.suite import Suite, SuiteBlock, built_in
from runner.worker.case_key import CaseKey


def overview() -> str:
    """The built-in suites as a table: the generated part of docs/suite.md."""
    lines = ["| suite | what it answers | cases | budget |", "|---|---|---|---|"]
    for suite in built_in().values():
        figures = f"{len(suite.cases)} | {suite.budget_seconds / 60:.0f} min"
        lines.append(f"| `{suite.name}` | {suite.summary} | {figures} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The suites with their cases, then the claims, as Markdown."""
    suites = "\n".join(_suite(suite) for suite in built_in().values())
    return f"{suites}\n{_claims()}"


def _suite(suite: Suite) -> str:
    head = (
        f"## `{suite.name}`\n\n{suite.summary[:1].upper()}{suite.summary[1:]}. "
        f"{len(suite.cases)} cases, {suite.replicates} replicates each, "
        f"a budget of {suite.budget_seconds / 60:.0f} minutes, "
        f"{suite.timing.measure_seconds:g} s measured in each process.\n"
    )
    if suite.name == "full":
        # Its blocks are those of the suites above.
        return head
    lines = ["", "| workload | techniques | why it is there | claims |", "|---|---|---|---|"]
    for block in suite.blocks:
        lines.extend(_rows(block, suite))
    return head + "\n".join(lines) + "\n"


def _rows(block: SuiteBlock, suite: Suite) -> Iterable[str]:
    """One row for each workload of a block."""
    techniques: dict[str, list[str]] = {}
    claims: dict[str, dict[int, None]] = {}
    for case in block.cases:
        key = CaseKey.parse(case)
        listed = techniques.setdefault(key.workload, [])
        if not listed and (baseline := str(key.eager)) in suite.baselines and baseline not in block.cases:
            listed.append("`eager` (baseline, added)")
        listed.append(f"`{case.rsplit('/', 1)[1]}`")
        claims.setdefault(key.workload, {}).update(dict.fromkeys(_number(one) for one in claims_for(case)))
    for workload, listed in techniques.items():
        tested = ", ".join(map(str, sorted(claims[workload]))) or "-"
        yield f"| `{workload}` | {'<br>'.join(listed)} | {block.why} | {tested} |"


def _claims() -> str:
    lines = [
        "## Claims\n",
        "What the field says, and who says it. Pyrometer prints what it measures beside it.\n",
        "| no. | claim | compared | hardware | source |",
        "|---|---|---|---|---|",
    ]
    for claim in all_claims():
        source = f"[{claim.source}]({claim.url})" if claim.url else claim.source
        compared = f"`{claim.metric}`, {claim.kind}" if claim.metric else "not measured yet"
        lines.append(f"| {_number(claim)} | {claim.statement} | {compared} | {claim.hardware} | {source} |")
    return "\n".join(lines) + "\n"


def _number(claim: Claim) -> int:
    return all_claims().index(claim) + 1
