"""What can go wrong with the dashboard's server.

* DashboardError
  * PortBusy            something else listens there already
  * AddressUnusable     this machine has no such address, or may not bind it
"""


class DashboardError(Exception):
    """Base of everything this folder raises; its text is one sentence for people."""


class PortBusy(DashboardError):
    """Another program listens on the port already."""


class AddressUnusable(DashboardError):
    """The address cannot be bound on this machine."""
