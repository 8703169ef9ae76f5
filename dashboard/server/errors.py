"""What can go wrong with the dashboard's server.

* DashboardError
  * PortBusy            something else listens there already
  * AddressUnusable     this machine has no such address, or may not bind it
  * LoginUnusable       what a login needs is not installed
  * NotAllowed          somebody wants to do what is not theirs to do
"""


class DashboardError(Exception):
    """Base of everything this folder raises; its text is one sentence for people."""


class PortBusy(DashboardError):
    """Another program listens on the port already."""


class AddressUnusable(DashboardError):
    """The address cannot be bound on this machine."""


class LoginUnusable(DashboardError):
    """A login was asked for that needs what is not installed."""


class NotAllowed(DashboardError):
    """Somebody wants to do what is not theirs to do."""
