"""How starting a service fails."""

from __future__ import annotations


class StartError(Exception):
    """The service could not be started; the message says what to install or where its log is."""


class NotReady(Exception):
    """The service does not answer yet."""
