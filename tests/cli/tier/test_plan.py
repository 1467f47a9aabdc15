"""The plan for people, against a running broker."""

from __future__ import annotations

import time


def test_a_waiting_step_is_shown_with_its_reason(stratalog, topic) -> None:
    """In a table with its sum, as JSON with its price."""
    stratalog(
        "tier", "set", topic, "--enable", "--copy-lag-ms", "1h", "--segment-ms", "100", "--local-retention-ms", "1d"
    )
    stratalog("produce", topic, "-p", "0", stdin="hello\n")
    deadline = time.monotonic() + 20
    rows = []
    while not any("remote.copy.lag" in row["why"] for row in rows) and time.monotonic() < deadline:
        rows = stratalog("tier", "plan", topic, "--store", "aws-s3-standard", "--json").rows
        time.sleep(0.1)
    (row,) = rows
    assert (row["action"], row["start"], row["end"], row["count"], row["cost"]) == ("wait", 0, 1, 1, 0)
    shown = stratalog("tier", "plan", topic)
    assert "remote.copy.lag" in shown.out
    assert "0 upload, 1 wait, 0 evict, 0 delete, 0 trash." in shown.err
    stratalog("topic", "delete", topic)


def test_uploads_cost_requests_now_and_bytes_by_the_month() -> None:
    """Deletions are paid back."""
    from stratalog.cli.tier.plan import _row
    from stratalog.tier.planning.prices import PriceTable

    prices = PriceTable("x", write_per_1000=1000, stored_per_gb_month=1)
    usage = {"reads": 1, "writes": 2, "lists": 0, "deletes": 0, "received_bytes": 0, "sent_bytes": 0}
    step = {"action": "upload", "size_bytes": 1 << 30}
    row = _row({**step, "usage": dict(usage)}, prices)
    assert (row["requests"], row["cost"], row["per_month"], row["currency"]) == (3, 2, 1, "USD")
    assert _row({**step, "action": "delete", "usage": dict(usage)}, prices)["per_month"] == -1
    assert _row({**step, "usage": dict(usage)}, None)["cost"] is None


def test_an_unknown_topic_is_not_found(stratalog) -> None:
    """With its code."""
    assert "does not exist" in stratalog("tier", "plan", "absent", code=3).err
