"""`pyrometer dashboard`: show what is stored."""

import os

from .context import UsageError, context, in_one_sentence, say, store_pending
from .options import AllowHost, Host, Port


def dashboard(
    port: Port = 8501,
    host: Host = "127.0.0.1",
    allow_host: AllowHost = None,
) -> None:
    """Open the dashboard on this machine's numbers; Ctrl-C stops it."""
    # Streamlit takes seconds to import; no other command should wait for it.
    from dashboard import server
    from dashboard.errors import DashboardError

    with in_one_sentence():
        here = context(reading=True)
        for note in here.places.notes:
            say(f"note: {note}")
        store_pending(here)
        # What it named is settled; beside the URL itself it would be a contradiction.
        os.environ.pop("PYROMETER_DATABASE_URL_FILE", None)
        os.environ["PYROMETER_DATABASE_URL"] = here.places.database_url
        os.environ["PYROMETER_DATA_DIR"] = str(here.places.data_dir)
        try:
            server.serve(host, port, allow_host or ())
        except DashboardError as error:
            raise UsageError(str(error)) from error
