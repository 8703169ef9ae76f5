"""The findings of detection: a list by cause, and one finding with its evidence."""

from dashboard.regressions import page

page.show()
