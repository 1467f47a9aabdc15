"""Local and archived offsets, against a running broker."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from stratalog.cli.command import HTTP_DEFAULT
from stratalog.cli.main import cli
from stratalog.client.reach import Reached
from stratalog.metadata.settings.configs import definitions
from stratalog.wire.topic import TopicPartition


def test_the_default_http_address_is_the_brokers_own() -> None:
    """Both sides must mean the same port."""
    assert definitions()["stratalog.http.listener"].default == HTTP_DEFAULT


def test_status_shows_offsets_and_bytes_of_every_partition(stratalog, topic) -> None:
    """Offsets by the Kafka protocol, bytes by HTTP."""
    stratalog("produce", topic, "-p", "1", stdin="hello\n")
    rows = stratalog("tier", "status", topic, "--json").rows
    assert [row["partition"] for row in rows] == [0, 1, 2]
    row = rows[1]
    assert (row["topic"], row["log_start"], row["local_start"], row["remote_end"], row["log_end"]) == (
        topic,
        0,
        0,
        None,
        1,
    )
    assert row["local_bytes"] > 0
    assert row["remote_bytes"] == 0


def test_an_archived_topic_is_followed_into_the_bucket(stratalog, live_broker) -> None:
    """Frozen by age, uploaded, and read back through the same command; its objects pass the dump."""
    stratalog(
        "topic",
        "create",
        "archived",
        "-c",
        "remote.storage.enable=true",
        "-c",
        "segment.ms=200",
        "-c",
        "retention.ms=-1",
    )
    stratalog("produce", "archived", stdin="hello\n")
    deadline = time.monotonic() + 30
    row = {}
    while row.get("remote_end") != 1 and time.monotonic() < deadline:
        (row,) = stratalog("tier", "status", "archived", "--json").rows
        time.sleep(0.1)
    assert (row["remote_end"], row["log_end"], row["objects"]) == (1, 1, 1)
    assert row["remote_bytes"] > 0
    assert stratalog("consume", "archived", "--exit").out == "hello\n"
    objects = [
        str(path) for path in (live_broker.home / "bucket").rglob("archived-*/**/*") if path.suffix in {".seg", ".json"}
    ]
    assert {path.rpartition(".")[2] for path in objects} == {"seg", "json"}
    stratalog("dump", *objects)
    stratalog("topic", "delete", "archived")


def test_status_without_http_leaves_bytes_out(stratalog, topic) -> None:
    """A note says what to do; the offsets are shown."""
    found = stratalog("tier", "status", topic, "--http", "127.0.0.1:1")
    assert "Give --http HOST:PORT" in found.err
    assert len(found.out.splitlines()) == 4
    assert " - " in found.out.splitlines()[1]


def test_the_broker_says_where_it_listens_for_http(stratalog, topic, live_broker, monkeypatch) -> None:
    """Without --http its settings name the address, also where it is not the default one."""
    asked = []
    monkeypatch.setattr(
        "stratalog.cli.tier.status._sizes", lambda address, *_: asked.append(address) or ({}, " is asked")
    )
    monkeypatch.setattr(
        "stratalog.cli.http.describe_broker_configs",
        lambda _client, _node, names: {names[0]: "0.0.0.0:1234"},
    )
    found = CliRunner().invoke(cli, ["tier", "status", topic, "-b", live_broker.kafka])
    assert found.exit_code == 0
    assert asked == [("127.0.0.1", 1234)]


def test_status_without_a_name_is_of_archived_topics(stratalog, topic) -> None:
    """Those with remote.storage.enable."""
    assert topic not in stratalog("tier", "status").out
    stratalog("tier", "set", topic, "--enable")
    assert topic in stratalog("tier", "status").out
    stratalog("topic", "delete", topic)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("status", "nope"), 3),
        (("status", "--http", "nonsense"), 2),
    ],
)
def test_wrong_status_arguments_have_their_codes(stratalog, topic, arguments, code) -> None:
    """Missing topics and wrong usage end with their own exit codes."""
    stratalog("tier", *(text.format(topic=topic) for text in arguments), code=code)


PARTITIONS = [TopicPartition("t", number) for number in range(4)]


class FourPartitions:
    """A client of two brokers: 1 leads t-0 and t-2, 2 leads t-1; t-3 has no leader."""

    def __init__(self, *_arguments) -> None:
        self.brokers = {1: ("host-1", 9092), 2: ("host-2", 9092)}

    def __enter__(self):
        return self

    def __exit__(self, *_error) -> None:
        pass

    def refresh(self, names):
        assert names == ("t",)
        return [SimpleNamespace(name="t", partitions=[SimpleNamespace(partition=number) for number in range(4)])]

    def by_leader(self, partitions):
        assert partitions == PARTITIONS[:3]
        return {1: [PARTITIONS[0], PARTITIONS[2]], 2: [PARTITIONS[1]]}

    def list_offsets(self, asked):
        return {one: SimpleNamespace(offset=one.partition) for one in asked}


@pytest.fixture
def two_brokers(monkeypatch):
    """The command in a cluster of two brokers that answer, and one that is away; each knows the sizes of what it leads."""
    sizes = {
        "host-1": {one: {"local_bytes": 10 + one.partition, "state": "archived"} for one in PARTITIONS[::2]},
        "host-2": {PARTITIONS[1]: {"local_bytes": 11, "state": "archived"}},
    }
    room = "stratalog.cli.tier.status"
    monkeypatch.setattr(f"{room}.Client", FourPartitions)
    monkeypatch.setattr(f"{room}.reached_partitions", lambda *_: Reached(PARTITIONS[:3], {PARTITIONS[3]: "no leader"}))
    monkeypatch.setattr(
        "stratalog.cli.http.describe_broker_configs", lambda _client, node, names: {names[0]: f":808{node}"}
    )
    monkeypatch.setattr(f"{room}._sizes", lambda address, *_: (sizes[address[0]], " does not lead it"))
    return sizes


def test_each_broker_is_asked_for_what_it_leads(two_brokers) -> None:
    """The partition of a broker that is away has a row without figures; the exit code is that of ``stratalog cluster``."""
    found = CliRunner().invoke(cli, ["tier", "status", "t", "--json"])
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert [(row["partition"], row["log_end"], row["local_bytes"]) for row in rows] == [
        (0, 0, 10),
        (1, 1, 11),
        (2, 2, 12),
        (3, None, None),
    ]
    assert (found.exit_code, found.stderr) == (4, "Not shown: t-3: no leader.\n")


def test_partitions_that_an_http_address_does_not_know_are_named(two_brokers) -> None:
    """An address of another machine may be that of another broker here."""
    del two_brokers["host-1"][PARTITIONS[2]]
    found = CliRunner().invoke(cli, ["tier", "status", "t"])
    assert found.stderr.splitlines()[0] == "No sizes of t-2: http host-1:8081 does not lead it. Give --http HOST:PORT."
