"""Mounting a bucket from the command line, in a process of its own, with a client of others."""

from __future__ import annotations

import itertools
import json
import re
import urllib.request
from pathlib import Path

import boto3
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from stratalog.cli.main import cli
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.stores.opening import open_store
from stratalog.tier.work.archive_writer import archive_log
from stratalog.tier.work.cut_commands import create_cut
from stratalog.wire.batch import Record, build_batch

READY = re.compile(r"ready kafka=(127\.0\.0\.1:[1-9]\d*) http=(127\.0\.0\.1:[1-9]\d*) bucket=(file:///\S+)\n")


@pytest.fixture
def archived(start_node):
    """The folder of a bucket in which a broker that is stopped now has archived ``events``; and their values."""
    node = start_node()
    node.create("events", 2, remote_storage_enable="true", internal_segment_bytes=4096, local_retention_bytes=1)
    values = [b"event %d " % number * 20 for number in range(200)]
    producer = Producer({"bootstrap.servers": node.address, "linger.ms": 0, "batch.num.messages": 5})
    for number, value in enumerate(values):
        producer.produce("events", value, partition=number % 2)
        if number % 20 == 0:
            producer.flush(20)
    assert producer.flush(20) == 0
    del producer
    node.wait_until(
        lambda: all(
            node.partition("events", number).remote.end_offset
            == node.partition("events", number).log.active_base_offset
            for number in range(2)
        )
    )
    ends = [node.run(lambda at=number: node.partition("events", at).remote.end_offset) for number in range(2)]
    node.stop()
    return f"{node.directory}/bucket", [values[number::2][: ends[number]] for number in range(2)]


def listed(folder):
    """Every file below a folder with its bytes and the time it was changed."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in Path(folder).rglob("*")
    }


def consume(address: str, group: str, counts: list[int]) -> list[list[bytes]]:
    """The values of each partition that a group reads, committed at the end."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest", "check.crcs": True}
    )
    consumer.subscribe(["events"])
    found: list[list[bytes]] = [[] for _ in counts]
    while [len(one) for one in found] != counts:
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        assert message.offset() == len(found[message.partition()])
        found[message.partition()].append(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def check_page(http: str, counts: list[int]) -> None:
    """The page gets every record of every partition as in the bucket only, and the place of its bytes."""
    with urllib.request.urlopen(f"http://{http}/v1/tier?topic=events", timeout=20) as answer:
        said = json.load(answer)
    assert said["bucket"]["read_only"]
    assert (said["tiered_partitions"], said["problems"]) == (2, 0)
    assert [row["spans"]["remote"] for row in said["rows"]] == counts
    with urllib.request.urlopen(f"http://{http}/tier/status?topic=events", timeout=20) as answer:
        rows = json.load(answer)["partitions"]
    assert [(row["state"], row["remote_end"]) for row in rows] == [("mounted", count) for count in counts]
    assert [row["remote_bytes"] for row in rows] == [row["remote_bytes"] for row in said["rows"]]
    assert all(row["remote_bytes"] and row["objects"] for row in rows)


@pytest.mark.story
def test_a_bucket_is_read_by_a_group_in_another_process_and_stays_as_it_was(archived, start_command):
    """Archived records come back one by one; a group commits; writing and topics are refused; no byte changes."""
    folder, values = archived
    before = listed(folder)
    process = start_command("mount", f"file://{folder}")
    ready = READY.fullmatch(process.stdout.readline())
    address, http, url = ready.groups()
    assert url == f"file://{folder}"
    assert consume(address, "readers", [len(one) for one in values]) == values
    committed = Consumer({"bootstrap.servers": address, "group.id": "readers"})
    asked = committed.committed([TopicPartition("events", number) for number in range(2)], timeout=20)
    assert [one.offset for one in asked] == [len(one) for one in values]
    committed.close()
    errors = []
    producer = Producer({"bootstrap.servers": address})
    producer.produce("events", b"no", on_delivery=lambda error, _: errors.append(error.name()))
    producer.flush(20)
    assert errors == ["TOPIC_AUTHORIZATION_FAILED"]
    admin = AdminClient({"bootstrap.servers": address})
    (refused,) = admin.create_topics([NewTopic("mine", 1)]).values()
    with pytest.raises(KafkaException) as caught:
        refused.result(20)
    assert caught.value.args[0].name() == "TOPIC_AUTHORIZATION_FAILED"
    check_page(http, [len(one) for one in values])
    process.terminate()
    out, words = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, ""), words
    assert listed(folder) == before


def test_a_folder_that_is_not_there_ends_the_start_with_words(tmp_path):
    """No folder is made, in the place of the bucket or elsewhere."""
    found = CliRunner().invoke(
        cli, ["mount", f"file://{tmp_path}/nowhere", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    )
    assert found.exit_code != 0
    assert "cannot be mounted" in found.output
    assert "there is no such directory" in found.output
    assert list(tmp_path.iterdir()) == []


def test_a_mount_cannot_be_made_to_write(tmp_path):
    """The setting is what makes it one."""
    found = CliRunner().invoke(cli, ["mount", f"file://{tmp_path}", "--set", "stratalog.read.only=false"])
    assert found.exit_code == 2
    assert "use stratalog serve" in found.output


@pytest.fixture
def s3(monkeypatch):
    """A bucket in S3 with 30 records of ``orders``: its client, its endpoint."""
    from tests.moto_server import start_moto_server

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    server = start_moto_server()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="mounted")
    store = open_store("s3://mounted/prod", endpoint_url=endpoint, region="us-east-1")
    records = [Record(at, 1_700_000_000_000 + at, None, b"%d" % at) for at in range(30)]
    batch = bytes(build_batch(records, leader_epoch=0))
    archive_log(store, PartitionId("orders", b"\1" * 16, 0), [batch], now_ms=1)
    create_cut(store, "nightly", now_ms=1)
    yield client, endpoint
    server.stop()


@pytest.mark.story
def test_a_bucket_in_s3_is_read_by_groups_of_both_protocols_and_stays_as_it_was(s3, start_command):
    """Every object has the hash and the time that it had; a view is subscribed to without committing."""
    client, endpoint = s3

    def objects():
        return [
            (one["Key"], one["ETag"], one["LastModified"])
            for one in client.list_objects_v2(Bucket="mounted")["Contents"]
        ]

    before = objects()
    settings = [f"stratalog.bucket.endpoint.url={endpoint}", "stratalog.bucket.region=us-east-1"]
    process = start_command(
        "mount", "s3://mounted/prod", *itertools.chain.from_iterable(("--set", one) for one in settings)
    )
    ready = process.stdout.readline()
    assert ready.endswith("bucket=s3://mounted/prod\n")
    for topic, protocol in (("orders", "classic"), ("orders", "consumer"), ("orders@nightly", "classic")):
        consumer = Consumer(
            {
                "bootstrap.servers": ready.split()[1].removeprefix("kafka="),
                "group.id": f"{protocol}-{topic}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        found = []
        while len(found) < 30 and (message := consumer.poll(20)) is not None and message.error() is None:
            found.append(message.value())
        assert found == [b"%d" % at for at in range(30)]
        if topic == "orders":
            consumer.commit(asynchronous=False)
        consumer.close()
    process.terminate()
    process.communicate(timeout=30)
    assert objects() == before
