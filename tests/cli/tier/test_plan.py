"""The plan for people, against a running broker."""

from __future__ import annotations

import json
import time

from click.testing import CliRunner

from stratalog.cli.main import cli
from stratalog.cli.tier import plan
from tests.client import told_topics as told


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


def test_each_broker_is_asked_and_one_that_is_away_is_named(scripted, monkeypatch) -> None:
    """The steps of all come in one table, by partition; exit code 4."""
    scripted.ranges = {3: (0, 13), 18: (0, 4)}
    answer = told.metadata(scripted.port, (1, 2, 3), {})
    answer.brokers[2].port = 1
    scripted.answers[3] = answer
    monkeypatch.setattr(plan, "http_text_of", lambda _client, node: f"h:{node}")
    usage = {"reads": 0, "writes": 0, "lists": 0, "deletes": 0, "received_bytes": 0, "sent_bytes": 0}
    step = {"topic": "t", "action": "upload", "start": 0, "end": 1, "count": 1, "size_bytes": 9, "why": "due"}

    def asked(address, _method, _path):
        partition = {"h:1": 5, "h:2": 3}[address]
        return {"bucket": "file:///b", "steps": [step | {"partition": partition, "usage": dict(usage)}]}

    monkeypatch.setattr(plan, "http_json", asked)
    found = CliRunner().invoke(cli, ["tier", "plan", "-b", scripted.address, "--timeout", "1", "--json"])
    assert found.exit_code == 4
    assert [json.loads(line)["partition"] for line in found.stdout.splitlines()] == [3, 5]
    assert "Not shown: node 3 does not answer" in found.stderr


def test_brokers_with_one_http_address_are_not_taken_for_one_another(scripted, monkeypatch) -> None:
    """By default each listens on 127.0.0.1:8080 of its own machine: the one of this machine is asked once, for one topic once."""
    scripted.ranges = {3: (0, 13), 18: (0, 4)}
    scripted.answers[3] = told.metadata(scripted.port, (1, 2, 3), {})
    monkeypatch.setattr(plan, "http_text_of", lambda _client, _node: "127.0.0.1:8080")
    usage = {"reads": 0, "writes": 0, "lists": 0, "deletes": 0, "received_bytes": 0, "sent_bytes": 0}
    step = {
        "topic": "t",
        "partition": 5,
        "action": "upload",
        "start": 0,
        "end": 1,
        "count": 1,
        "size_bytes": 9,
        "why": "due",
    }
    monkeypatch.setattr(plan, "http_json", lambda *_: {"bucket": "file:///b", "steps": [step | {"usage": dict(usage)}]})
    found = CliRunner().invoke(cli, ["tier", "plan", "t", "t", "-b", scripted.address, "--timeout", "1", "--json"])
    assert found.exit_code == 4
    assert len(found.stdout.splitlines()) == 1
    assert "Not shown: all but one of the nodes 1, 2, 3: each has 127.0.0.1:8080" in found.stderr
