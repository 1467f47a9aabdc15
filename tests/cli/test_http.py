"""Asking a broker over HTTP."""

from __future__ import annotations

import pytest

from stratalog.cli.http import http_json
from stratalog.cli.output import HttpUnanswered, NotFoundError


def test_refusals_of_the_broker_are_passed_on(live_broker) -> None:
    """In its words."""
    with pytest.raises(NotFoundError, match="'absent' does not exist"):
        http_json(live_broker.http, "GET", "/tier/status?topic=absent")


def test_an_answer_that_is_no_json_is_none(live_broker) -> None:
    """Something else listens there."""
    with pytest.raises(HttpUnanswered, match="Give --http HOST:PORT"):
        http_json(live_broker.http, "GET", "/livez")
