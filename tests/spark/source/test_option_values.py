"""One value of an option at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stratalog.spark.source.option_values import choice, duration_ms, flag, integer, is_int, json_object, positive, size
from stratalog.wire.errors import Invalid


@pytest.mark.parametrize(
    ("parse", "expected"),
    [
        (lambda: size({"maxbytes": "8MiB"}, "maxBytes", 1), 8 << 20),
        (lambda: size({}, "maxBytes", 7), 7),
        (lambda: positive({"count": " 12 "}, "count"), 12),
        (lambda: positive({}, "count"), None),
        (lambda: flag({"on": "TRUE"}, "on", default=False), True),
        (lambda: choice({}, "mode", ("fail", "skip")), "fail"),
        (lambda: choice({"mode": "Skip"}, "mode", ("fail", "skip")), "skip"),
        (lambda: json_object("assign", '{"a": [1]}'), {"a": [1]}),
        (lambda: [duration_ms({"t": text}, "t", 1) for text in ("7", "30s", "2 MIN")], [7, 30_000, 120_000]),
        (lambda: duration_ms({}, "delay", 900), 900),
        (lambda: [is_int(each) for each in (1, True, 1.0, "1")], [True, False, False, False]),
    ],
)
def test_values_are_understood(parse: Callable[[], Any], expected: object) -> None:
    """Upper and lower case of names and words mean the same, and a missing option has its default."""
    assert parse() == expected


@pytest.mark.parametrize(
    ("parse", "message"),
    [
        (lambda: size({"maxbytes": "many"}, "maxBytes", 1), "option 'maxBytes' must be a size like 64m"),
        (lambda: size({"maxbytes": "2g"}, "maxBytes", 1, highest=1 << 30), "at most 1073741824 bytes"),
        (lambda: size({"maxbytes": "0"}, "maxBytes", 1), "option 'maxBytes' must be a size like 64m"),
        (lambda: size({"maxbytes": "-1"}, "maxBytes", 1), "option 'maxBytes' must be a size like 64m"),
        (lambda: duration_ms({"delay": "-1"}, "delay", 1), "option 'delay' must be a time like 30s"),
        (lambda: integer("count", "x", 0), "option 'count' must be a whole number"),
        (lambda: integer("count", "-1", 0), "option 'count' must be at least 0, got -1"),
        (lambda: flag({"on": "yes"}, "on", default=False), "option 'on' must be true or false, got 'yes'"),
        (lambda: choice({"mode": "x"}, "mode", ("fail", "skip")), "option 'mode' must be one of fail, skip, got 'x'"),
        (lambda: duration_ms({"delay": "3 weeks"}, "delay", 1), "option 'delay' must be a time like 30s"),
        (lambda: json_object("assign", "{"), "option 'assign' is not JSON"),
        (lambda: json_object("assign", '{"a": [0], "a": [1]}'), "option 'assign' names 'a' twice"),
        (lambda: json_object("startingOffsets", '{"a": {"0": 5, "0": 7}}'), "option 'startingOffsets' names '0' twice"),
        (lambda: json_object("startingOffsets", '{"a": {"0": ' + "9" * 5000 + "}}"), "'startingOffsets' is not JSON"),
        (lambda: json_object("assign", "[]"), "option 'assign' must be a JSON object"),
    ],
)
def test_an_error_names_its_option(parse: Callable[[], Any], message: str) -> None:
    """The user finds what to change."""
    with pytest.raises(Invalid, match=message):
        parse()
