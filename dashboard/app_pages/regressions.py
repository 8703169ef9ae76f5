"""What the nights found: a list by cause, and one finding opened with its evidence."""

from dashboard.regressions import page

page.show()
