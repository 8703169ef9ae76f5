"""Gains of techniques, histories of series, utilisation of devices, and operator tables."""

from dashboard.components import parts
from dashboard.runs import operators
from dashboard.techniques import page as techniques
from dashboard.trends import page as trends
from dashboard.utilisation import page as utilisation

parts.views(
    "explore",
    {
        "techniques": techniques.show,
        "history": trends.show,
        "utilisation": utilisation.show,
        "profile": operators.show,
    },
)
