"""DeleteTopics: gone for clients at once, from the disk a little later, and for good."""

from pathlib import Path

import pytest

from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from stratalog.wire.topic import ZERO_UUID


def by_name(*names):
    return DeleteTopicsRequest(
        topic_names=list(names),
        topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names],
        timeout_ms=1,
    )


def directories(broker):
    """The partition directories on the disk."""
    return sorted(path.name for path in Path(broker.directory, "data").iterdir() if path.is_dir())


@pytest.mark.parametrize("version", range(1, 7))
def test_a_deleted_topic_is_gone_for_clients(broker, version):
    """It is in no metadata, takes no records, and its directory no longer carries its name."""
    broker.create("t", 2)
    broker.produce("t", b"v")
    (answer,) = broker.link().call(by_name("t"), version).responses
    assert (answer.name, answer.error_code) == ("t", 0)
    assert broker.node.image.topics.by_name == {}
    assert not any(name in ("t-0", "t-1") for name in directories(broker))
    with pytest.raises(Exception, match="unknown topic"):
        broker.client().topic("t")


def test_a_topic_is_deleted_by_its_id(broker):
    """From version 6 on; an unknown id and an unknown name have codes of their own."""
    topic_id = broker.create("t").topic_id
    states = [
        DeleteTopicState(name=None, topic_id=topic_id),
        DeleteTopicState(name=None, topic_id=b"z" * 16),
        DeleteTopicState(name="absent", topic_id=ZERO_UUID),
        DeleteTopicState(name="both", topic_id=b"z" * 16),
    ]
    answers = broker.link().call(DeleteTopicsRequest(topics=states, timeout_ms=1), 6).responses
    codes = {(one.name, one.topic_id): one.error_code for one in answers}
    assert codes[("t", topic_id)] == 0
    assert codes[(None, b"z" * 16)] == ErrorCode.UNKNOWN_TOPIC_ID
    assert codes[("absent", ZERO_UUID)] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes[("both", b"z" * 16)] == ErrorCode.INVALID_REQUEST
    assert broker.node.image.topics.by_name == {}


def test_deletion_can_be_switched_off(start_node):
    """delete.topic.enable=false: TOPIC_DELETION_DISABLED for every topic, and all stay."""
    node = start_node(delete_topic_enable=False)
    node.create("t")
    (answer,) = node.link().call(by_name("t"), 6).responses
    assert answer.error_code == ErrorCode.TOPIC_DELETION_DISABLED
    assert node.produce("t", b"v") == [0]


def test_the_files_go_after_their_delay(start_node):
    """A directory marked for deletion is removed by the broker's housekeeping, also after a restart."""
    node = start_node(log_segment_delete_delay_ms=50)
    for name in ("a", "b"):
        node.create(name)
        node.produce(name, b"v")
    node.link().call(by_name("a"), 6)
    node.wait_until(lambda: not any("delete" in name for name in directories(node)))
    node.settings["log.segment.delete.delay.ms"] = "3600000"
    node.restart()
    node.link().call(by_name("b"), 6)
    assert any(name.endswith("-delete") for name in directories(node))
    node.settings["log.segment.delete.delay.ms"] = "50"
    node.restart()
    node.wait_until(lambda: not any("delete" in name for name in directories(node)))


def test_a_topic_made_again_is_empty(broker):
    """The old records never show under the same name, also after a restart."""
    broker.create("t")
    for generation in range(3):
        broker.produce("t", b"old")
        broker.link().call(by_name("t"), 6)
        broker.create("t")
        assert broker.values("t") == []
        broker.produce("t", b"new %d" % generation)
        broker.restart()
        assert broker.values("t") == [b"new %d" % generation]


def test_figures_of_a_deleted_topic_go(broker):
    """The metrics have no line under its name."""
    broker.create("t")
    broker.produce("t", b"v")
    broker.link().call(by_name("t"), 6)
    assert "t" not in broker.node.metrics.topics


@pytest.mark.parametrize("version", range(1, 7))
def test_an_unexpected_failure_is_answered_for_every_topic(broker, monkeypatch, version):
    """UNKNOWN_SERVER_ERROR and nothing deleted; the connection goes on."""
    broker.create("t")
    link = broker.link()
    with monkeypatch.context() as patch:
        patch.setattr(type(broker.node.control), "execute", lambda self, command: 1 / 0)
        answer = link.call(by_name("t", "u"), version)
    assert [(one.name, one.error_code) for one in answer.responses] == [
        (name, ErrorCode.UNKNOWN_SERVER_ERROR) for name in ("t", "u")
    ]
    assert list(broker.node.image.topics.by_name) == ["t"]
    assert link.call(by_name("t"), version).responses[0].error_code == 0
