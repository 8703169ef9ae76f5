"""The form for judging an upgrade by other rules, which are stored in the address."""

import streamlit as st

from analysis.comparison.policy import Policy
from analysis.metrics import METRICS
from dashboard.components import parts
from dashboard.upgrades.rules import DECIDING, NO_LIMIT, RuleChanges, number, per_cent, toml
from dashboard.upgrades.view import UpgradeView
from reports.upgrade_report import JudgedUpgrade

#: The name of the policy in the proposed text for pyrometer.toml.
_NAME = "ours"
#: Fields of the form, by their keys in the session.
_METRIC, _THRESHOLD, _CASE, _WORST, _WEIGHTS, _MUST = (
    f"rules-{each}" for each in ("metric", "threshold", "case", "worst", "weight", "must")
)
#: The number of visible lines of text.
_HEIGHT = 82


def rules(selection: UpgradeView, stored: Policy, judgement: JudgedUpgrade) -> None:
    """Show the form, filled with the rules in effect; `stored` are those the run was measured under."""
    policy = judgement.subject.policy
    metrics = {metric for result in judgement.results for metric in result.verdicts} | {policy.metric}
    threshold = per_cent(policy, policy.metric)
    # Rules are stored only in the address; the fields are read when the form is submitted.
    st.session_state[_METRIC] = policy.metric
    st.session_state[_THRESHOLD] = threshold
    st.session_state[_CASE] = round(100 * policy.case, 10)
    st.session_state[_WORST] = "\n".join(_limits(policy))
    st.session_state[_WEIGHTS] = "\n".join(_weights(policy))
    st.session_state[_MUST] = "\n".join(policy.must_not_regress)
    with (
        st.expander("Change policy", expanded=selection.rules.changed),
        st.form("rules", border=False),
    ):
        left, right = st.columns(2)
        left.selectbox(
            "Metric that decides",
            [name for name in DECIDING if name in metrics],
            key=_METRIC,
            format_func=lambda name: METRICS[name].title,
        )
        left.number_input(
            "Threshold of a change, %",
            0.0,
            # The policy of an imported run may contain any value.
            max(100.0, threshold),
            step=0.5,
            format="%g",
            key=_THRESHOLD,
        )
        left.number_input("A case is materially slower from, %", 0.0, None, step=0.5, format="%g", key=_CASE)
        right.text_area("No case may be worse by: METRIC:PER_CENT, one a line", key=_WORST, height=_HEIGHT)
        right.text_area("Weights: CASE_OR_GLOB:NUMBER, one a line", key=_WEIGHTS, height=_HEIGHT)
        right.text_area("Must not regress: a case or a glob, one a line", key=_MUST, height=_HEIGHT)
        with st.container(horizontal=True):
            st.form_submit_button(
                "Judge", on_click=_judge, args=(selection.run, stored, policy.metric, threshold)
            )
            if selection.rules.changed:
                st.form_submit_button("As it was measured", on_click=_forget, args=(selection.run,))


def to_keep(selection: UpgradeView, judgement: JudgedUpgrade) -> None:
    """Show how to use the rules of an address for every upgrade."""
    if not selection.rules.changed:
        return
    with st.expander("Keep these rules: add them to pyrometer.toml"):
        parts.code(toml(judgement.subject.policy, _NAME))
        parts.caption(f"`pyrometer upgrade OLD NEW --policy {_NAME}` then measures and judges by them.")


def _judge(run: str, policy: Policy, metric: str, threshold: float) -> None:
    """Write the typed values into the address; the page then reports invalid ones.

    `metric` and `threshold` are the initial values of the form.
    """
    state = st.session_state
    changes = RuleChanges(str(state[_METRIC]), float(state[_THRESHOLD]), case=float(state[_CASE]))
    if changes.metric != metric and changes.threshold == threshold:
        # The threshold was that of another metric and was not edited.
        changes = RuleChanges(changes.metric, case=changes.case)
    query = UpgradeView(run, changes.differing_from(policy)).query()
    own, limits = _limits(policy), _lines(str(state[_WORST]))
    limited_metrics = {line.rpartition(":")[0].strip() for line in limits}
    # Removing a line removes its limit.
    removed_limits = [f"{metric}:{NO_LIMIT}" for metric in policy.worst if metric not in limited_metrics]
    if worst := [*(line for line in limits if line not in own), *removed_limits]:
        query["worst"] = worst
    weights, must = _lines(str(state[_WEIGHTS])), _lines(str(state[_MUST]))
    if weights != _weights(policy):
        query["weight"] = weights or [""]
    if must != list(policy.must_not_regress):
        query["must"] = must or [""]
    st.query_params.from_dict(query)


def _forget(run: str) -> None:
    st.query_params.from_dict(UpgradeView(run).query())


def _weights(policy: Policy) -> list[str]:
    return [f"{glob}:{number(weight)}" for glob, weight in policy.weights.items()]


def _limits(policy: Policy) -> list[str]:
    return [f"{metric}:{number(round(100 * limit, 10))}" for metric, limit in policy.worst.items()]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
