"""The archive side of a whole broker: attached partitions, files beside the logs and in the bucket, reports."""

import asyncio
import errno
import json
from pathlib import Path

import pytest

from stratalog.broker.archive import tiering as tiering_module
from stratalog.broker.replicas.led import Led
from stratalog.client.admin import alter_topic_configs, delete_topics
from stratalog.hot.directory import LogDirectory
from stratalog.hot.storage.checkpoint import read_remote_log
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.metadata.controller.brokers import raise_leader_epoch
from stratalog.tier import open_store
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.manifest_store import read_manifest
from stratalog.tier.messages import commands
from stratalog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from stratalog.wire.topic import TopicPartition

TIERED = {
    "remote_storage_enable": "true",
    "internal_segment_bytes": 2000,
    "local_retention_bytes": 0,
    "retention_ms": -1,
}


@pytest.fixture
def broker(start_node):
    return start_node(log_flush_offset_checkpoint_interval_ms="100", log_retention_check_interval_ms="100")


def archive(broker, topic, batches=10):
    """Write, and wait until all frozen segments are archived."""
    for _ in range(batches):
        broker.produce(topic, *[b"v" * 100] * 5)

    def done():
        unified = broker.partition(topic)
        return unified.remote.end_offset == unified.log.active_base_offset > 0

    broker.wait_until(done)


def checkpoint(broker):
    return read_remote_log(RealFilesystem(), f"{broker.directory}/data")


def test_topics_without_tiering_have_no_archive(broker):
    """The bucket gets no request for them."""
    broker.create("t", internal_segment_bytes=2000)
    for _ in range(10):
        broker.produce("t", *[b"v" * 100] * 5)
    assert broker.partition("t").remote is None
    assert not (Path(broker.directory) / "bucket").exists() or not any((Path(broker.directory) / "bucket").iterdir())
    assert broker.run(broker.node.tiering.describe, broker.partition("t")).state == "local"


def test_a_new_partition_has_a_checkpoint_before_its_first_upload(broker):
    """A restart before that needs no bucket: there is nothing that the log could lack."""
    broker.create("t", **TIERED)
    broker.wait_until(lambda: checkpoint(broker).get(TopicPartition("t", 0), ())[:3] == (0, 0, 0))


@pytest.mark.story
def test_the_checkpoint_follows_the_manifest(broker):
    """Log start, remote end, bytes and number; those of deleted topics go."""
    broker.create("t", **TIERED)
    archive(broker, "t")
    remote = broker.partition("t").remote
    broker.wait_until(lambda: checkpoint(broker).get(TopicPartition("t", 0)) == remote.state)
    delete_topics(broker.client(), ["t"])
    broker.wait_until(lambda: TopicPartition("t", 0) not in checkpoint(broker))


@pytest.mark.story
def test_the_bucket_describes_itself(broker):
    """Format, cluster and topic; the topic's settings are written again when they change."""
    broker.create("t", **TIERED)
    archive(broker, "t")
    store = open_store(f"file://{broker.directory}/bucket")
    topic_id = broker.partition("t").topic_id

    def topic():
        keys = [one.key for one in store.list("topics/") if one.key.endswith("topic.json")]
        return json.loads(store.get(keys[0])[0]) if keys else None

    def written():
        keys = {one.key for one in store.list("")}
        return topic() and {"format.json", f"clusters/{broker.node.cluster_id}/cluster.json"} <= keys

    broker.wait_until(written)  # three workers may write them, in any order
    assert json.loads(store.get("format.json")[0])
    assert store.get(f"clusters/{broker.node.cluster_id}/cluster.json")[0]
    alter_topic_configs(broker.client(), "t", set_to={"retention.bytes": "123456789"})
    broker.wait_until(lambda: "123456789" in json.dumps(topic()))
    assert topic_id


@pytest.mark.story
def test_a_partition_is_described(broker):
    """The output of ``tier status``."""
    broker.create("t", **TIERED)
    archive(broker, "t")
    figures = broker.run(broker.node.tiering.describe, broker.partition("t"))
    assert figures.end_offset == broker.partition("t").log.active_base_offset
    assert figures.object_count > 0
    assert figures.size_bytes > 0
    assert figures.state == "held"
    broker.restart()
    figures = broker.run(broker.node.tiering.describe, broker.partition("t"))
    assert figures.end_offset > 0
    assert figures.size_bytes > 0
    broker.wait_until(lambda: broker.node.tiering.describe(broker.partition("t")).object_count > 0)


@pytest.mark.story
def test_requests_are_counted_by_operation_and_topic(broker):
    """Copies and fetches, as Kafka's metrics name them."""
    broker.create("t", **TIERED)
    archive(broker, "t")
    metrics = broker.partition("t").metrics
    assert metrics.remote_copy_requests >= 1
    assert metrics.remote_copy_bytes > 0
    assert metrics.remote_copy_errors == 0
    assert metrics.remote_fetch_requests == 0
    unified = broker.partition("t")
    broker.wait_until(lambda: unified.log.local_log_start_offset == unified.remote.end_offset)
    broker.values("t")
    broker.wait_until(lambda: metrics.remote_fetch_requests >= 2)  # told when the worker has done, the bytes before
    assert metrics.remote_fetch_bytes > 0
    assert broker.run(lambda: broker.node.tiering._border_reads + broker.partition("t").remote.border_reads) == 1


def test_the_worker_starts_with_the_first_record(broker):
    """The first upload does not wait for that: beside busy processes a start takes seconds."""
    broker.create("t", remote_storage_enable="true")
    assert broker.run(lambda: broker.node.tiering._io.pid) is None
    broker.produce("t", b"v")
    broker.wait_until(lambda: broker.node.tiering._io.pid)
    assert broker.node.tiering._io.outstanding == 0


@pytest.mark.story
def test_the_worker_waits_for_readers_of_an_archive(broker):
    """After a start it is there before anybody asks; without an archive there is none."""
    broker.create("t", **TIERED)
    broker.restart()
    assert broker.run(lambda: broker.node.tiering._io.pid) is None
    archive(broker, "t")
    broker.restart()
    assert broker.run(lambda: broker.node.tiering._io.pid) is not None


def test_a_closed_broker_answers_later_and_never_inside_the_call(broker):
    """Commands that come while it closes fail; the caller is answered in another turn of the loop."""

    async def ask():
        tiering, told = broker.node.tiering, []
        await tiering._io.close()
        tiering.submit(commands.ReadManifest(PartitionId("t", bytes(16), 0)), told.append)
        assert told == []
        await asyncio.sleep(0)
        return told

    (report,) = broker.run(ask)
    assert report.retriable


@pytest.mark.story
def test_reading_goes_on_with_tiering_switched_off_in_the_topic(broker):
    """``remote.log.copy.disable`` and a restart: the archive is still there."""
    broker.create("t", **{**TIERED, "local_retention_bytes": -2, "retention_bytes": -1})
    archive(broker, "t")
    expected = broker.values("t")
    alter_topic_configs(broker.client(), "t", set_to={"remote.log.copy.disable": "true"})
    broker.restart()
    assert broker.values("t") == expected


def test_a_copy_that_leads_after_tiering_was_switched_off_begins_where_its_disk_does(broker):
    """It began behind the archive, and its leader before. Offsets in between were errors for ever."""
    broker.create("t", remote_log_delete_on_disable="true")
    unified = broker.partition("t")

    def lead():
        log = unified.partition.log
        log.truncate_fully_and_start_at(50, (), None, log_start_offset=20)
        unified.partition.high_watermark = 50
        log.assign_leader_epoch(unified.partition.leader_epoch)
        broker.node.tiering.attach(unified, Led.TAKEN_OVER)

    broker.run(lead)
    broker.wait_until(lambda: unified.log_start_offset == 50)
    assert broker.produce("t", b"new") == [50]
    assert broker.values("t", 0, 50) == [b"new"]


@pytest.mark.story
def test_each_leader_epoch_archives_under_a_claim_of_its_own(broker):
    """The claim of the epoch before is over in the bucket, too."""
    broker.create("t", **TIERED)
    archive(broker, "t")
    unified = broker.partition("t")
    before = unified.partition.leader_epoch
    broker.run(
        broker.node.control.execute,
        lambda image: raise_leader_epoch(image, unified.topic_id, 0, above=before + 4),
    )
    assert unified.partition.leader_epoch == before + 5
    archive(broker, "t")
    partition = PartitionId("t", unified.topic_id, 0)
    manifest = read_manifest(open_store(broker.node.config.bucket_url), partition).manifest
    assert manifest.claimant.leader_epoch == before + 5


@pytest.mark.story
def test_the_copy_lag_holds_uploads_back_until_it_is_changed(broker):
    """Without a restart, in both directions."""
    lagging = {**TIERED, "local_retention_bytes": -1, "local_retention_ms": -1, "remote_copy_lag_ms": 3_600_000}
    broker.create("t", **lagging, remote_copy_lag_bytes=-1)
    for _ in range(10):
        broker.produce("t", *[b"v" * 100] * 5)
    unified = broker.partition("t")
    broker.wait_until(lambda: unified.log.active_base_offset > 0)
    broker.run(broker.node.tiering.look, unified)
    archive_ = broker.node.tiering._archives[unified]
    assert archive_.lag == (-1, -1)
    assert unified.remote.end_offset == 0
    alter_topic_configs(broker.client(), "t", set_to={"remote.copy.lag.ms": "0"})
    broker.wait_until(lambda: unified.remote.end_offset == unified.log.active_base_offset)
    alter_topic_configs(broker.client(), "t", set_to={"stratalog.upload.lag.ms": "3600000"})
    before = unified.remote.end_offset
    for _ in range(10):
        broker.produce("t", *[b"v" * 100] * 5)
    broker.wait_until(lambda: unified.log.active_base_offset > before)
    broker.run(broker.node.tiering.look, unified)
    assert unified.remote.end_offset == before


@pytest.mark.story
def test_settings_of_objects_reach_their_upload(broker):
    """Class and part size, as they are when the upload begins."""
    seen = []
    broker.create("t", **TIERED)
    submit = broker.node.tiering.submit

    def watched(command, answered):
        if isinstance(command, commands.Upload):
            seen.append((command.part_bytes, command.storage_class))
        submit(command, answered)

    gate = broker.node.tiering._archives[broker.partition("t")]._submit
    gate._submit = watched
    archive(broker, "t")
    assert set(seen) == {(16 << 20, "")}
    seen.clear()
    changes = {"stratalog.upload.part.bytes": str(6 << 20), "stratalog.storage.class": "STANDARD_IA"}
    alter_topic_configs(broker.client(), "t", set_to=changes)
    archive(broker, "t")
    assert set(seen) == {(6 << 20, "STANDARD_IA")}


@pytest.mark.story
def test_which_copies_of_manifests_stay_is_said_with_every_commit(start_node):
    """As the settings are then."""
    node, seen = start_node(stratalog_history_copies_min="3", stratalog_trash_grace_ms="77"), []
    node.create("t", **TIERED)
    submit = node.node.tiering.submit

    def watched(command, answered):
        if isinstance(command, commands.Commit):
            seen.append(command.kept_history)
        submit(command, answered)

    node.node.tiering.uploads._submit = watched
    archive(node, "t")
    assert set(seen) == {(3, 77)}


def test_a_leadership_that_ends_takes_its_waiting_uploads_along(broker):
    """Those under way end by themselves."""
    gate, held = broker.node.tiering.uploads, []
    submit = gate._submit

    def slow(command, answered):
        if isinstance(command, commands.Upload):
            held.append((command, answered))
        else:
            submit(command, answered)

    gate._submit = slow
    for topic in ("t", "u"):
        broker.create(topic, **TIERED)
        for _ in range(12):
            broker.produce(topic, *[b"v" * 100] * 5)
    broker.wait_until(lambda: (len(held), gate.waiting_count) == (3, 1))
    (waiting,) = {one.command.request.partition.topic for one in gate._waiting}
    delete_topics(broker.client(), [waiting])
    broker.wait_until(lambda: all(one.topic_partition.topic != waiting for one in broker.node.partitions))
    broker.run(lambda: held.pop(0)[1](commands.FailedReport("no", retriable=True)))
    assert waiting not in {command.request.partition.topic for command, _ in held[2:]}
    broker.run(lambda: [answered(commands.FailedReport("no", retriable=True)) for _, answered in held[:2]])


def test_cluster_wide_defaults_reach_tiered_topics_at_once(broker):
    """Our settings and Kafka's copy lag are set by the broker resource
    that stands for all; a topic's own comes first.
    """
    broker.create("t", **TIERED)
    broker.create("own", **TIERED)
    alter_topic_configs(broker.client(), "own", set_to={"stratalog.storage.class": "GLACIER_IR"})
    wanted = {"stratalog.storage.class": "STANDARD_IA", "log.remote.copy.lag.ms": "7"}
    changes = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in wanted.items()]
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=changes)
    (answer,) = (
        broker.client().call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)).responses
    )
    assert (answer.error_code, answer.error_message) == (0, None)
    broker.wait_until(lambda: broker.partition("t").log.config.storage_class == "STANDARD_IA")
    assert broker.partition("t").log.config.remote_copy_lag_ms == 7
    assert broker.partition("own").log.config.storage_class == "GLACIER_IR"


def test_a_disk_that_fills_during_a_stop_does_not_end_it_early(start_node, tmp_path, monkeypatch, caplog):
    """The last checkpoints are written after the chunk cache was closed: it cannot give way any more."""
    node = start_node(log_dirs=f"{tmp_path}/one,{tmp_path}/two")
    close = LogDirectory.close

    def close_without_room(*args, **options):
        close(*args, **options)
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(LogDirectory, "close", close_without_room)
    monkeypatch.setattr("stratalog.broker.cold.chunk_files.same_file_system", lambda *_: True)
    node.stop()
    full = [record.getMessage() for record in caplog.records if "is full" in record.getMessage()]
    assert len(full) == 2


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_is_deleted_in_a_round_of_retention_has_no_part_in_its_end(start_node, monkeypatch, again):
    """A round pauses. The files of the old log are gone by its end, or those of a topic that was made again lie there."""
    broker = start_node(log_flush_offset_checkpoint_interval_ms="100")
    settings = TIERED | {"internal_segment_bytes": 1 << 20}
    broker.create("t", **settings)
    unified, tiering = broker.partition("t"), broker.node.tiering
    for number in range(6):
        broker.produce("t", b"old %d" % number)
        broker.run(unified.log.roll)
    broker.wait_until(lambda: unified.remote.end_offset == 6 and unified.remote.facts is not None)
    monkeypatch.setattr(tiering_module, "planned_log_start", lambda *_: 4)
    broker.run(tiering.retain, unified, 0)
    assert unified.log.log_start_offset == 4
    delete_topics(broker.client(), ["t"])
    broker.wait_until(lambda: "t" not in broker.node.image.topics.by_name)
    if again:
        broker.create("t", **settings)
        assert [broker.produce("t", b"new %d" % number)[0] for number in range(3)] == [0, 1, 2]
    broker.run(tiering.retained)
    assert unified.partition.directory.offline is None
    starts = broker.node.directories.of(unified.partition.directory).files.log_start_offsets
    assert starts.get(TopicPartition("t", 0), 0) == 0
    assert not again or broker.values("t") == [b"new 0", b"new 1", b"new 2"]


def test_files_that_a_full_disk_kept_go_with_the_next_round_of_retention(start_node, monkeypatch):
    """The start has moved already, and nothing of this is archived: only these files still show that they have to go."""
    broker = start_node(log_retention_check_interval_ms="3600000")
    broker.create(
        "t", **TIERED | {"remote_log_copy_disable": "true", "local_retention_bytes": -2, "local_retention_ms": -2}
    )
    unified, tiering = broker.partition("t"), broker.node.tiering
    for number in range(6):
        broker.produce("t", b"%d" % number)
        broker.run(unified.log.roll)
    monkeypatch.setattr(tiering_module, "planned_log_start", lambda *_: 4)
    broker.run(tiering.retain, unified, 0)
    with monkeypatch.context() as patched:

        def no_room(*_):
            raise OSError(errno.ENOSPC, "no space left on device")

        patched.setattr(LogDirectory, "write_checkpoints", no_room)
        broker.run(tiering.retained)
    assert unified.log.first_base_offset == 0
    broker.run(tiering.retain, unified, 0)
    broker.run(tiering.retained)
    assert unified.log.first_base_offset == 4
