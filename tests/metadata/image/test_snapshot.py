"""Images as records, and the files that hold them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.metadata.image.brokers_image import BrokerImage, ControllerImage, ListenerAddress, SupportedLevels
from stratalog.metadata.image.configs_image import ConfigResource
from stratalog.metadata.image.features import METADATA_VERSION, bootstrap_records
from stratalog.metadata.image.image import EMPTY_IMAGE, Provenance
from stratalog.metadata.image.snapshot import (
    SnapshotId,
    build_snapshot,
    image_records,
    parse_snapshot_name,
    read_snapshot,
    read_snapshot_and_quorum,
    snapshot_name,
)
from stratalog.metadata.image.topics_image import LeaderRecovery, PartitionImage
from stratalog.metadata.quorum.checkpoint import QuorumRecords, build_checkpoint
from stratalog.wire.batch import check_batch
from stratalog.wire.errors import Corrupt, Invalid
from stratalog.wire.records.control import Endpoint, KRaftVersionFeature, QuorumVoter
from stratalog.wire.records.metadata import ConfigRecord, FeatureLevelRecord, ProducerIdsRecord, TopicRecord

_SMALL = st.integers(0, 9)
_UUID = st.binary(min_size=16, max_size=16)
_NAME = st.text("abc", min_size=1, max_size=3)
_BROKERS = st.lists(_SMALL, max_size=3, unique=True).map(tuple)
_LEVELS = st.dictionaries(_NAME, st.builds(SupportedLevels, _SMALL, _SMALL), max_size=2)
_LISTENERS = st.dictionaries(_NAME, st.builds(ListenerAddress, _NAME, st.integers(0, 65535), _SMALL), max_size=2)
_PARTITION = st.builds(
    PartitionImage,
    _BROKERS,
    _BROKERS,
    leader=st.integers(-1, 9),
    leader_epoch=_SMALL,
    partition_epoch=_SMALL,
    leader_recovery=st.sampled_from(LeaderRecovery),
    directories=st.lists(_UUID, max_size=2).map(tuple),
    adding_replicas=_BROKERS,
    removing_replicas=_BROKERS,
    eligible_leader_replicas=_BROKERS,
    last_known_eligible=_BROKERS,
)
_BROKER = st.builds(
    BrokerImage,
    _SMALL,
    st.integers(0, 1 << 40),
    _UUID,
    _LISTENERS,
    _LEVELS,
    st.none() | _NAME,
    is_fenced=st.booleans(),
    in_controlled_shutdown=st.booleans(),
    directories=st.lists(_UUID, max_size=2).map(tuple),
    cordoned_directories=st.none() | st.lists(_UUID, max_size=1).map(tuple),
)
_CONTROLLER = st.builds(ControllerImage, _SMALL, _UUID, _LISTENERS, _LEVELS, st.booleans())
_TOPIC = st.tuples(_UUID, _NAME, st.lists(_PARTITION, max_size=3))
_CONFIG = st.tuples(st.sampled_from([2, 4, 32]), st.sampled_from(["", "a", "1"]), _NAME, _NAME)


@st.composite
def images(draw):
    """Any image that records can make."""
    names = draw(st.lists(_NAME, unique=True, max_size=2))
    records = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=30)]
    records += [FeatureLevelRecord(name=name, feature_level=1) for name in names]
    records += [controller.to_record() for controller in draw(st.lists(_CONTROLLER, max_size=2))]
    records += [broker.to_record() for broker in draw(st.lists(_BROKER, max_size=3))]
    topics = draw(st.lists(_TOPIC, max_size=3, unique_by=(lambda each: each[0], lambda each: each[1])))
    for topic_id, name, partitions in topics:
        records.append(TopicRecord(name=name, topic_id=topic_id))
        records += [partition.to_record(topic_id, number) for number, partition in enumerate(partitions)]
    for kind, resource, name, value in draw(st.lists(_CONFIG, max_size=4)):
        records.append(ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value))
    records.append(ProducerIdsRecord(broker_id=1, next_producer_id=draw(st.integers(0, 1 << 62))))
    return EMPTY_IMAGE.apply(records, Provenance(draw(st.integers(0, 1 << 40)), draw(_SMALL), draw(_SMALL)))


@given(images())
def test_an_image_is_what_its_records_make(image):
    """image → records → image is the identity."""
    assert EMPTY_IMAGE.apply(image_records(image)) == image


@settings(max_examples=20, deadline=None)
@given(images())
def test_voters_survive_the_file_beside_the_image(image):
    """A snapshot that left them out would leave a node of a dynamic quorum without voters."""
    voter = QuorumVoter(
        voter_id=1,
        voter_directory_id=b"d" * 16,
        endpoints=[Endpoint(name="CONTROLLER", host="a", port=9093)],
        kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    content = b"".join(build_snapshot(image, QuorumRecords(1, (voter,))))
    snapshot = SnapshotId(image.provenance.offset + 1, image.provenance.epoch)
    assert read_snapshot_and_quorum(content, snapshot) == (image, QuorumRecords(1, (voter,)))


@given(images())
def test_an_image_survives_its_file(image):
    """image → .checkpoint → image is the identity, provenance included."""
    content = b"".join(build_snapshot(image))
    snapshot = SnapshotId(image.provenance.offset + 1, image.provenance.epoch)
    loaded = read_snapshot(content, snapshot)
    assert loaded == image
    assert loaded.provenance == image.provenance


def test_metadata_version_is_the_first_record():
    """Readers decide by it how to read the rest."""
    image = EMPTY_IMAGE.apply(reversed(bootstrap_records()))
    first = next(iter(image_records(image)))
    assert isinstance(first, FeatureLevelRecord)
    assert first.name == "metadata.version"


def test_a_file_begins_and_ends_with_a_control_batch_and_counts_from_zero():
    """Header, batches of at most a thousand records, footer; offsets without gaps."""
    resource = ConfigResource.topic("t")
    records = [
        ConfigRecord(resource_type=resource.type, resource_name="t", name=f"n{index}", value="v")
        for index in range(2500)
    ]
    batches = [check_batch(batch) for batch in build_snapshot(EMPTY_IMAGE.apply(records, Provenance(9, 3, 77)))]
    assert [batch.is_control for batch in batches] == [True, False, False, False, True]
    assert [batch.base_offset for batch in batches] == [0, 1, 1001, 2001, 2501]
    assert {batch.partition_leader_epoch for batch in batches} == {3}


@pytest.mark.parametrize("cut", [1, 40, 80, 200])
def test_a_file_cut_off_anywhere_is_corrupt(cut):
    """Without its footer a snapshot is worth nothing."""
    content = b"".join(build_snapshot(EMPTY_IMAGE.apply(bootstrap_records(), Provenance(3, 1, 5))))
    with pytest.raises(Corrupt):
        read_snapshot(content[:-cut], SnapshotId(4, 1))


def test_bytes_behind_the_footer_are_corrupt():
    """A file that goes on was not written by us."""
    batches = build_snapshot(EMPTY_IMAGE.apply(bootstrap_records(), Provenance(3, 1, 5)))
    with pytest.raises(Corrupt, match="behind its footer"):
        read_snapshot(b"".join([*batches, batches[1]]), SnapshotId(4, 1))


def test_records_of_a_newer_release_are_no_damage():
    """The file is whole: an older one would lead to the same records."""
    content = build_checkpoint([b"\x01\xc8\x01\0\0"], last_contained_timestamp_ms=5, timestamp_ms=5)
    with pytest.raises(Invalid, match=r"snapshot 0{18}42-0{9}3.checkpoint: .*type 200.*update this node"):
        read_snapshot(content, SnapshotId(42, 3))


def test_a_snapshot_is_named_by_offset_and_epoch():
    """Twenty and ten digits, as Kafka names them; unfinished files have other names."""
    snapshot = SnapshotId(42, 3)
    assert snapshot_name(snapshot) == "00000000000000000042-0000000003.checkpoint"
    assert parse_snapshot_name(snapshot_name(snapshot)) == snapshot
    for other in (snapshot_name(snapshot) + ".part", "bootstrap.checkpoint", "42-3.checkpoint", ""):
        assert parse_snapshot_name(other) is None
