"""What maps, series and other large data are condensed into before a score is learned of them.

Importing any of them registers all, so that every saved model can be read.
"""

from . import bank, field_network, given, learned  # noqa: F401
