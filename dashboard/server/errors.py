"""The errors of the dashboard's server.

* DashboardError
  * PortBusy            something else listens there already
  * AddressUnusable     this machine has no such address, or may not bind it
  * LoginUnusable       what a login needs is not installed
  * NotAllowed          the reader may not do that
"""


class DashboardError(Exception):
    """Base of everything this folder raises; its text is one sentence for people."""


class PortBusy(DashboardError):
    """Another program listens on the port already."""


class AddressUnusable(DashboardError):
    """The address cannot be bound on this machine."""


class LoginUnusable(DashboardError):
    """The configured login needs a package that is not installed."""


class NotAllowed(DashboardError):
    """The reader may not do that."""
