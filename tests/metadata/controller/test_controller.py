"""The one import for the controller."""

from stratalog.metadata.controller import controller
from stratalog.metadata.controller.controller import NewTopic, create_topics, delete_topics, register_broker
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.metadata.image.replay import MetadataReplay
from stratalog.wire.batch import Record, build_batch
from stratalog.wire.records.metadata import encode_record


def test_every_public_name_is_there():
    """All names that the other rooms import from here exist."""
    assert [name for name in controller.__all__ if not hasattr(controller, name)] == []


def test_decisions_written_to_a_log_give_the_image_they_gave_in_memory(cluster, start_of, rules, topic_ids):
    """Every record the controller writes can be encoded, read back and replayed."""
    image, log, offset = EMPTY_IMAGE, bytearray(), 0

    def write(decision):
        nonlocal image, log, offset
        rows = [Record(offset + at, 1, None, encode_record(record)) for at, record in enumerate(decision.records)]
        log += build_batch(rows, leader_epoch=1)
        offset += len(rows)
        image = image.apply(decision.records)

    write(register_broker(image, start_of(1), broker_epoch=1, unclean_allowed=lambda _: False))
    topics = [NewTopic("a", 3, configs={"retention.ms": "7"}), NewTopic("b")]
    write(create_topics(image, topics, rules, new_topic_id=topic_ids, next_int=lambda _: 0))
    write(register_broker(image, start_of(1), broker_epoch=9, unclean_allowed=lambda _: False))
    write(delete_topics(image, [("b", bytes(16))]))
    replay = MetadataReplay()
    replay.replay(log)
    assert replay.image() == image
    assert set(image.topics.by_name) == {"a"}
