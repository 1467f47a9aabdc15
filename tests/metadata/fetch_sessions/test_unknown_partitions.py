"""Partitions of a session that do not exist: they stay dirty, for they change unseen."""

from stratalog.metadata.fetch_sessions.fetch_session import LASTING_LOOKS_MAX
from stratalog.wire.errors import ErrorCode
from tests.metadata.fetch_sessions.test_fetch_session import Log, World, gather, session, wanted


def test_unknown_topics_take_turns_when_there_are_many():
    """A client names any number of them; what has records is looked at each time, and each of the others comes round again."""
    world, one, count = World(), session(), LASTING_LOOKS_MAX + 1
    for number in range(count):
        world.logs["gone", number] = Log(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        one.want("gone", wanted(number))
    one.want("t", wanted(0))
    assert len(gather(one, world)) == count + 1
    for log in world.logs.values():
        log.looks = 0
    world.logs["t", 0].high_watermark = world.logs["t", 0].last_stable_offset = 1
    world.logs["t", 0].changed()
    assert gather(one, world)["t", 0] == 1
    assert sum(log.looks for name, log in world.logs.items() if name[0] == "gone") == LASTING_LOOKS_MAX
    gather(one, world)
    assert all(world.logs["gone", number].looks for number in range(count))
