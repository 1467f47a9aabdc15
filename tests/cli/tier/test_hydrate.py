"""Hydration on the command line, against a running broker."""

from __future__ import annotations

import time

import pytest

from stratalog.cli.tier import hydrate


@pytest.mark.story
def test_a_range_is_brought_into_the_cache(stratalog, topic) -> None:
    """Until the archive's end; told in bytes."""
    stratalog("tier", "set", topic, "--enable", "--segment-ms", "100", "--local-retention-bytes", "0")
    stratalog("produce", topic, "-p", "0", stdin="hello\n")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        rows = stratalog("tier", "status", topic, "--json").rows
        if rows[0]["remote_end"] == 1:
            break
        time.sleep(0.1)
    (row,) = stratalog("tier", "hydrate", topic, "0", "0..", "--pin", "1h", "--json").rows
    assert (row["from"], row["until"]) == (0, 1)
    assert row["size_bytes"] > 0
    assert "are held" in stratalog("tier", "hydrate", topic, "0", "0..1").err
    stratalog("topic", "delete", topic)


def test_a_range_that_does_not_come_ends_with_5(stratalog, monkeypatch) -> None:
    """A bucket that fails is asked again and again by the broker, for ever."""
    answers = [{"next_offset": 7, "done": False, "chunks": 1, "size_bytes": 100}]
    stuck = {"next_offset": 7, "done": False, "chunks": 0, "size_bytes": 0}
    monkeypatch.setattr(hydrate, "http_json", lambda *_: answers.pop() if answers else stuck)
    found = stratalog("tier", "hydrate", "t", "0", "0..10", "--http", "h:1", "--timeout", "0.05", code=5)
    assert "nothing from offset 7 on came within 0.05 s" in found.err
    assert "100 B before it are held" in found.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("absent", "0", "0..1"), 3),
        (("t", "0", "5..5"), 2),
        (("t", "0", "1-2"), 2),
        (("t", "0", "0..1", "--pin", "x"), 2),
    ],
)
def test_wrong_ranges_have_their_codes(stratalog, arguments, code) -> None:
    """Usage, and not found."""
    stratalog("tier", "hydrate", *arguments, code=code)
