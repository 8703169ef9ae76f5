"""What Streamlit itself takes: a plain chart of six lines, as many choices as Trends has, nothing else."""

import streamlit as st

st.html("<p>plain</p>")
for label in ("Metric", "Hardware", "Preset"):
    st.selectbox(label, ["one", "another"])
st.multiselect("Cases", ["one", "another"], ["one"])
st.segmented_control("Axis", ["one", "another"], default="one")
POINTS = [
    {"night": night, "line": f"line {line}", "value": night % 7 + line}
    for line in range(6)
    for night in range(60)
]
AXES = {
    "x": {"field": "night", "type": "quantitative"},
    "y": {"field": "value", "type": "quantitative"},
    "color": {"field": "line", "type": "nominal"},
}
st.vega_lite_chart(POINTS, {"mark": "line", "encoding": AXES})
st.download_button("CSV", "none")
st.checkbox("Again by itself")
