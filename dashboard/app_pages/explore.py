"""What techniques bring, how series moved, and how busy the devices were."""

from dashboard.components import page_views
from dashboard.techniques import page as techniques
from dashboard.trends import page as trends
from dashboard.utilisation import page as utilisation

page_views.show(
    "explore", {"techniques": techniques.show, "history": trends.show, "utilisation": utilisation.show}
)
