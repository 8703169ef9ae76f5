"""`pyrometer dashboard`: show what is stored."""

import os

from workflows.errors import UsageError
from workflows.ingest import store_beside_looking

from ..context import context, in_one_sentence, say
from ..options import AllowHost, Host, Port


def dashboard(
    port: Port = 8501,
    host: Host = "127.0.0.1",
    allow_host: AllowHost = None,
) -> None:
    """Open the dashboard on this machine's numbers; Ctrl-C stops it."""
    # Streamlit takes seconds to import; no other command should wait for it.
    from dashboard.auth.policy import settled
    from dashboard.server import server
    from dashboard.server.errors import DashboardError
    from dashboard.server.settings import PRICES, Prices

    with in_one_sentence():
        here = context(reading=True)
        rules = settled(here.settings.dashboard)
        if rules.login == "none" and not server.is_loopback(host):
            say(f"note: nobody logs in, so whoever reaches {host} looks and triages; see docs/dashboard.md")
        store_beside_looking(here)
        # What it named is settled; beside the URL itself it would be a contradiction.
        os.environ.pop("PYROMETER_DATABASE_URL_FILE", None)
        os.environ["PYROMETER_DATABASE_URL"] = here.places.database_url
        os.environ["PYROMETER_DATA_DIR"] = str(here.places.data_dir)
        prices = here.settings.prices
        os.environ[PRICES] = Prices(prices.currency, prices.per_hour).text
        try:
            server.serve(host, port, allow_host or (), rules)
        except DashboardError as error:
            raise UsageError(str(error)) from error
