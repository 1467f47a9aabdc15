"""Documents of the bucket are written once, and again when something went wrong or has changed."""

from types import SimpleNamespace

import pytest

from stratalog.broker.archive.projections import Projections
from stratalog.tier.messages import commands
from stratalog.wire.topic import TopicPartition

DOWN = commands.FailedReport("down", retriable=True)


class Rig:
    """The descriptions of a run; ``sent`` are those of the last look, with the calls that take their answers."""

    def __init__(self):
        self.sent, self.now_ms = [], 0
        self.projections = Projections(
            lambda command, answered: self.sent.append((command.key, answered)),
            "c",
            lambda: 3,
            lambda unified: commands.WriteProjection(unified.topic_partition.topic, {}),
            lambda: self.now_ms,
        )

    def write(self, *topics):
        self.sent.clear()
        for name in topics:
            self.projections.write(SimpleNamespace(topic_partition=TopicPartition(name, 0)))
        return [key for key, _ in self.sent]

    def answer(self, report):
        for _, answered in list(self.sent):
            answered(report)


@pytest.fixture
def rig():
    return Rig()


def test_documents_are_written_once_and_after_a_failure_again(rig):
    """Format and cluster with the first topic, each topic once, changed ones again."""
    assert rig.write("a") == ["format.json", "clusters/c/cluster.json", "a"]
    assert rig.write("a") == []
    assert rig.write("b") == ["b"]
    rig.projections.topic_changed("a")
    assert rig.write("a") == ["a"]
    rig.answer(DOWN)
    assert rig.write("a") == []
    rig.now_ms += 5000
    assert rig.write("a") == ["a"]
    rig.answer(commands.Written("a"))
    rig.now_ms += 10**9
    assert rig.write("a", "b") == []


def test_a_description_that_cannot_be_written_is_tried_again_alone_and_less_and_less_often(rig, caplog):
    """It may be damaged for good in a sound bucket: no other is sent again for it, and one line tells of it."""
    topics = [f"t{number}" for number in range(50)]
    rig.write(*topics)
    rig.answer(commands.Written("k"))
    rig.projections.topic_changed("t7")
    sent = []
    for _ in range(4 * 3600):
        sent += rig.write(*topics) if rig.now_ms % 5000 == 0 else rig.write("t7")
        rig.answer(commands.FailedReport("damaged", retriable=False))
        rig.now_ms += 250
    assert set(sent) == {"t7"}
    assert 8 < len(sent) < 16
    assert caplog.text.count("damaged") == 1


def test_a_change_is_written_at_once_after_a_failure(rig):
    """It may be what the failure was about."""
    rig.write("a")
    rig.answer(DOWN)
    rig.projections.topic_changed("a")
    assert rig.write("a") == ["a"]
