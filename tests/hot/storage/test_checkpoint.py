"""Tests of hot/storage/checkpoint.py."""

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stratalog.hot.storage import checkpoint
from stratalog.hot.storage.checkpoint import MetaProperties, RemoteLogState
from stratalog.wire.errors import Corrupt
from stratalog.wire.topic import TopicPartition

TOPICS = st.text("abcz._-09", min_size=1, max_size=10)


def test_an_offset_checkpoint_is_kafkas_text(files, tmp_path):
    """Version, count, then topic, partition and offset a line."""
    offsets = {TopicPartition("orders", 1): 42, TopicPartition("flights", 0): 0}
    checkpoint.write_offsets(files, str(tmp_path), checkpoint.RECOVERY_POINTS, offsets)
    text = (tmp_path / "recovery-point-offset-checkpoint").read_text()
    assert text == "0\n2\nflights 0 0\norders 1 42\n"
    assert checkpoint.read_offsets(files, str(tmp_path), checkpoint.RECOVERY_POINTS) == offsets
    assert [entry.name for entry in files.scan(str(tmp_path))] == ["recovery-point-offset-checkpoint"]


@given(st.dictionaries(st.builds(TopicPartition, TOPICS, st.integers(0, 99)), st.tuples(*[st.integers(-1, 2**62)] * 3)))
def test_numbers_survive_their_checkpoint(rows):
    """Three numbers a line, as the remote-log checkpoint has."""
    assert checkpoint.numbers_from_bytes(checkpoint.numbers_to_bytes(rows), 3) == rows


@pytest.mark.parametrize(
    "data", [b"", b"0\n", b"1\n0\n", b"0\n1\n", b"0\n1\na 0\n", b"0\n1\na b 3\n", b"0\n1\na 0 3 4\n", b"\xff"]
)
def test_a_damaged_checkpoint_is_refused(data):
    """Short, long, other versions, other text."""
    with pytest.raises(Corrupt):
        checkpoint.numbers_from_bytes(data, 1)


def test_an_absent_checkpoint_is_empty(files, tmp_path):
    """A new directory has no checkpoints, so each read gives nothing instead of an error."""
    directory = str(tmp_path)
    assert checkpoint.read_offsets(files, directory, checkpoint.HIGH_WATERMARKS) == {}
    assert checkpoint.read_remote_log(files, directory) == {}
    assert checkpoint.read_meta_properties(files, directory) is None
    assert checkpoint.read_topic_id(files, directory) is None
    assert checkpoint.take_clean_shutdown(files, directory) is None
    assert checkpoint.read_truncation(files, directory) is None


def test_the_remote_log_checkpoint_survives(files, tmp_path):
    """Log start, remote end and bytes of each partition, and the number of its manifest."""
    states = {TopicPartition("flights", 3): RemoteLogState(5, 900, 123456, 17)}
    checkpoint.write_remote_log(files, str(tmp_path), states)
    assert checkpoint.read_remote_log(files, str(tmp_path)) == states


def test_the_remote_log_checkpoint_of_an_older_release_is_read(files, tmp_path):
    """It has three numbers a line."""
    (tmp_path / checkpoint.REMOTE_LOG).write_bytes(b"0\n1\nflights 3 5 900 123456\n")
    assert checkpoint.read_remote_log(files, str(tmp_path)) == {
        TopicPartition("flights", 3): RemoteLogState(5, 900, 123456, 0)
    }
    (tmp_path / checkpoint.REMOTE_LOG).write_bytes(b"0\n1\nflights 3 5 900\n")
    with pytest.raises(Corrupt, match="2 numbers, 4 are expected"):
        checkpoint.read_remote_log(files, str(tmp_path))


def test_meta_properties_name_the_owner(files, tmp_path):
    """As Kafka formats a directory; comments and unknown keys are fine."""
    owner = MetaProperties("MkU3OEVBNTcwNTJENDM2Qk", 3, bytes(range(16)))
    checkpoint.write_meta_properties(files, str(tmp_path), owner)
    path = tmp_path / "meta.properties"
    assert path.read_text().splitlines()[0] == "version=1"
    path.write_text("#\n#Sat Nov 21\nother.key=x\n" + path.read_text())
    assert checkpoint.read_meta_properties(files, str(tmp_path)) == owner


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "version is missing"),
        ("version=0\ncluster.id=a\nnode.id=1\ndirectory.id=b\n", "version is '0', known is 1"),
        ("version=1\ncluster.id=a\nnode.id=1\n", "directory.id is missing"),
        ("version=1\nnode.id=x\ncluster.id=a\ndirectory.id=b\n", "invalid literal"),
        ("version=1\ncluster.id=a\nnode.id=1\ndirectory.id=?\n", "'[?]' is not a uuid"),
    ],
)
def test_an_unreadable_owner_is_refused(files, tmp_path, text, found):
    """A directory that may belong to another program is left alone; the sentence names the file and what is wrong in it."""
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(Corrupt, match=rf"{tmp_path}/meta.properties is not readable: .*{found}.*restore it"):
        checkpoint.read_meta_properties(files, str(tmp_path))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_owner_is_refused_or_is_some_owner(files, tmp_path, data):
    """The file has no checksum: another digit is another node, which the settings do not name. No other error comes."""
    checkpoint.write_meta_properties(
        files, str(tmp_path), MetaProperties("MkU3OEVBNTcwNTJENDM2Qk", 3, bytes(range(16)))
    )
    content = bytearray((tmp_path / "meta.properties").read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[at:]
    else:
        content[at] ^= data.draw(st.integers(1, 255))
    (tmp_path / "meta.properties").write_bytes(content)
    with contextlib.suppress(Corrupt):
        assert len(checkpoint.read_meta_properties(files, str(tmp_path)).directory_id) == 16


def test_partition_metadata_has_no_newline_at_its_end(files, tmp_path):
    """Version 0 and the 22 characters of the topic id."""
    (tmp_path / "partition.metadata").write_bytes(checkpoint.topic_id_to_bytes(bytes(range(16))))
    assert (tmp_path / "partition.metadata").read_bytes() == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert checkpoint.read_topic_id(files, str(tmp_path)) == bytes(range(16))
    (tmp_path / "partition.metadata").write_text("version: 0\ntopic_id: short")
    with pytest.raises(Corrupt):
        checkpoint.read_topic_id(files, str(tmp_path))


def test_the_mark_of_a_clean_shutdown_is_taken_once(files, tmp_path):
    """A crash after the start does not find it again."""
    checkpoint.write_clean_shutdown(files, str(tmp_path), 17)
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":17}'
    assert checkpoint.take_clean_shutdown(files, str(tmp_path)) == 17
    assert checkpoint.take_clean_shutdown(files, str(tmp_path)) is None
    (tmp_path / ".kafka_cleanshutdown").write_text("?")
    assert checkpoint.take_clean_shutdown(files, str(tmp_path)) == -1


def test_a_truncation_mark_that_cannot_be_read_voids_every_recovery_point(files, tmp_path):
    """Verifying from the start is always safe."""
    checkpoint.write_truncation(files, str(tmp_path), 88)
    assert checkpoint.read_truncation(files, str(tmp_path)) == 88
    (tmp_path / "truncation-checkpoint").write_text("nonsense")
    assert checkpoint.read_truncation(files, str(tmp_path)) == 0
