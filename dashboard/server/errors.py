"""The errors of the dashboard's server.

* DashboardError * PortBusy another program listens there already * AddressUnusable this machine has no such
  address, or may not bind it * LoginUnusable a package for the login is not installed * NotAllowed the reader
  may not do that
"""


class DashboardError(Exception):
    """Base of all errors of this folder; the text is one sentence for users."""


class PortBusy(DashboardError):
    """Another program listens on the port already."""


class AddressUnusable(DashboardError):
    """The address cannot be bound on this machine."""


class LoginUnusable(DashboardError):
    """The configured login needs a package that is not installed."""


class NotAllowed(DashboardError):
    """The reader may not do that."""
