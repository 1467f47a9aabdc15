"""Hydration over HTTP."""

from __future__ import annotations

import pytest

from stratalog.cli.http import http_json
from stratalog.cli.output import NotFoundError
from stratalog.wire.errors import Invalid

GOOD = {"from": 0, "until": 10, "pin_ms": 60_000}


@pytest.fixture
def ask(live_broker):
    """One request."""
    return lambda topic, body, partition=0: http_json(
        live_broker.http, "POST", f"/v1/topics/{topic}/partitions/{partition}/hydrate", body
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"from": -1}, "from is a whole number"),
        ({"until": "x"}, "until is a whole number"),
        ({"pin_ms": True}, "pin_ms is a whole number"),
        ({"pin_ms": 8 * 86_400_000}, "from 1000 to 604800000"),
        ({}, "has no archive on this broker"),
    ],
)
def test_impossible_requests_are_refused(ask, topic, change, words) -> None:
    """In words that say what was expected."""
    with pytest.raises(Invalid, match=words):
        ask(topic, GOOD | change)


def test_a_partition_that_is_not_led_here_is_not_found(ask, topic) -> None:
    """An absent topic and a partition number that does not exist raise `NotFoundError`."""
    with pytest.raises(NotFoundError, match="absent-0 is not led by this broker"):
        ask("absent", GOOD)
    with pytest.raises(NotFoundError):
        ask(topic, GOOD, 9)
