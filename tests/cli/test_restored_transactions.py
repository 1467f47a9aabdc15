"""A transaction that was archived up to its last record, and restored from the bucket without its marker."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from stratalog.cli.main import cli


@pytest.fixture
def node(start_node):
    """A node whose housekeeping is quick."""
    return start_node(log_retention_check_interval_ms="100")


def archive(node, *, ends):
    """Four records of a transaction in the bucket, the marker and another record on the disk only, which is lost then."""
    node.create("t", remote_storage_enable="true", retention_ms=-1)
    producer = Producer({"bootstrap.servers": node.address, "transactional.id": "x", "linger.ms": 0})
    producer.init_transactions(20)
    producer.begin_transaction()
    for number in range(4):
        producer.produce("t", b"%d" % number, partition=0)
    producer.flush(20)
    node.run(node.partition("t").log.roll)  # the segment was full, or old
    (producer.commit_transaction if ends == "commit" else producer.abort_transaction)(20)
    node.produce("t", b"behind")
    archived(node, 4)
    node.wait_until(lambda: list(Path(node.directory, "bucket").glob("topics/*/topic.json")))
    del producer


def archived(node, end):
    """Wait until the archive ends there, with all that is sealed."""

    def done():
        unified = node.partition("t")
        unified.partition.directory.sync(unified.partition)
        return unified.remote.end_offset == unified.log.active_base_offset == end

    node.wait_until(done)


def command(*arguments):
    """Run a command that has to succeed."""
    told = CliRunner().invoke(cli, list(arguments))
    assert told.exit_code == 0, told.output


def restore(node, *options):
    """Begin the node again from its bucket."""
    node.stop()
    Path(node.directory, "data").rename(Path(node.directory, "lost"))
    command("restore", "--bucket", f"file://{node.directory}/bucket", "--data", f"{node.directory}/data", *options)
    node.settings["node.id"] = "1"
    node.start()


def check_readable(node, *, ends):
    """Readers of what is committed get it, and nothing is held back."""
    node.produce("t", b"new")
    partition = node.partition("t").partition
    marks = node.run(lambda: (partition.last_stable_offset, partition.high_watermark))
    assert marks == (6, 6)
    seen = [record.value for record in node.read("t", read_committed=True)]
    assert seen == [*([b"0", b"1", b"2", b"3"] if ends == "commit" else []), b"new"]


@pytest.mark.story
@pytest.mark.parametrize(
    "options", [("--takeover",), ("--takeover", "--cut", "early"), ()], ids=["over", "cut", "drill"]
)
@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_a_restored_log_ends_the_transactions_that_had_ended(node, ends, options):
    """Also beside the old cluster, and back at a cut; what is archived goes on, and a restart changes nothing."""
    archive(node, ends=ends)
    bucket = f"file://{node.directory}/bucket"
    if "--cut" in options:
        command("cut", "create", "early", "--bucket", bucket)
        node.run(node.partition("t").log.roll)
        archived(node, 6)
    restore(node, *options)
    check_readable(node, ends=ends)
    node.restart()
    if "--takeover" in options:
        node.run(node.partition("t").log.roll)
        archived(node, 6)
        command("tier", "verify", "--deep", "--bucket", bucket)
        assert [one.value for one in node.read("t", read_committed=True)][-1] == b"new"
