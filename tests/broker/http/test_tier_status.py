"""``GET /tier/status``: where offsets and bytes are."""

import json
import urllib.error
import urllib.request

import pytest

from stratalog.broker.cold.reader import RemotePartition


def get(node, query: str = ""):
    host, port = node.node.http_address
    with urllib.request.urlopen(f"http://{host}:{port}/tier/status{query}", timeout=10) as answer:
        return json.load(answer)


def test_every_partition_has_its_offsets_and_bytes(broker):
    """Sorted by topic and partition; a topic that is not tiered has nothing in the bucket."""
    broker.create("b", 2)
    broker.create("a")
    broker.produce("b", b"x", b"y", partition=1)
    rows = get(broker)["partitions"]
    assert [(row["topic"], row["partition"]) for row in rows] == [("a", 0), ("b", 0), ("b", 1)]
    row = rows[2]
    assert (row["log_start"], row["local_start"], row["log_end"]) == (0, 0, 2)
    assert row["local_bytes"] == broker.partition("b", 1).log.size_bytes > 0
    assert (row["remote_end"], row["remote_bytes"], row["objects"]) == (0, 0, 0)


def test_a_copy_of_what_another_broker_leads_is_left_out(broker):
    """Only the leader knows its archive: the row of a copy said that nothing is in the bucket."""
    broker.create("a", 2)
    broker.run(broker.partition("a", 0).partition.resign)
    assert [row["partition"] for row in get(broker, "?topic=a")["partitions"]] == [1]


def test_a_leader_that_has_not_read_its_archive_yet_gives_no_figures(broker, monkeypatch):
    """They were 0 after each change of leader, as if nothing were in the bucket."""
    broker.create("a", remote_storage_enable="true")
    broker.produce("a", b"x")
    monkeypatch.setattr(RemotePartition, "known", False)
    (row,) = get(broker, "?topic=a")["partitions"]
    assert (row["remote_end"], row["remote_bytes"], row["objects"], row["log_end"]) == (None, None, None, 1)


def test_one_topic_can_be_asked_for(broker):
    """With the bucket it would go to."""
    broker.create("a")
    broker.create("b")
    answer = get(broker, "?topic=a")
    assert (answer["topic"], answer["bucket"]) == ("a", broker.node.config.bucket_url)
    assert [row["topic"] for row in answer["partitions"]] == ["a"]


def test_an_unknown_topic_is_not_found(broker):
    """404 with a sentence."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(broker, "?topic=absent")
    with refused.value as answer:
        assert answer.code == 404
        assert "absent" in json.load(answer)["error"]
