"""Should we move from A to B on this hardware? One upgrade with its verdict and all evidence; the list."""

from dashboard.components import parts
from dashboard.server.settings import ServerSettings
from dashboard.upgrades import load, show
from dashboard.upgrades.view import wanted

url = ServerSettings.from_environment().database_url
query = parts.query()
parts.title("Upgrade")
known = load.newest(url)
found = wanted(query, known.items, older=known.older)
parts.complain(found.complaints)
if found.command:
    parts.caption("This measures them, on the machine where it is typed:")
    parts.code(found.command)
shown = show.one(url, query, found, known.items)
if known.items:
    show.lists(known, shown)
elif shown is None:
    show.nothing_measured()
