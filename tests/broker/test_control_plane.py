"""Commands: one at a time, written before they hold."""

import asyncio
from types import SimpleNamespace

import pytest

from stratalog.broker.control_plane import ControlPlane, ProducerIds
from stratalog.metadata.controller import Decision
from stratalog.metadata.image import EMPTY_IMAGE
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import ProducerIdsRecord, TopicRecord


class MetadataLog:
    """Takes records when the test lets it, and counts offsets."""

    def __init__(self) -> None:
        self.appended = []
        self.open = asyncio.Event()
        self.open.set()
        self.error = None
        self.offset = 0
        self.partition = SimpleNamespace(leader_epoch=3, directory=SimpleNamespace(report=self._report))
        self.snapshot_due = False
        self.snapshot_error = None
        self.snapshots = []
        self.reported = []

    def _report(self, error, partition):
        self.reported.append(error)

    async def append(self, records, now_ms):
        await self.open.wait()
        if self.error is not None:
            raise self.error
        self.appended.append(tuple(records))
        self.offset += len(records)
        return self.offset - 1

    async def write_snapshot(self, image, in_slices):
        if self.snapshot_error is not None:
            raise self.snapshot_error
        self.snapshots.append(image.provenance.offset)


@pytest.fixture
async def log():
    return MetadataLog()


@pytest.fixture
async def applied():
    """The images that were announced."""
    return []


@pytest.fixture
async def control(log, applied):
    clock = SimpleNamespace(wall_ms=lambda: 99)

    async def on_applied(image, delta):
        await asyncio.sleep(0)
        applied.append((image, delta))

    return ControlPlane(EMPTY_IMAGE, log, clock, on_applied)


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=name.encode().ljust(16, b"\1"))


def creating(name: str):
    """A command that fails if the topic is there already."""

    def decide(image):
        if name in image.topics.by_name:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS)
        return Decision((topic(name),), f"made {name}")

    return decide


async def test_a_client_that_goes_away_does_not_leave_records_that_nobody_knows(control, log, applied):
    """A command cancelled while its records are being written is carried to its end, and the next one knows of it."""
    log.open.clear()
    leaving = asyncio.ensure_future(control.execute(creating("a")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.sleep(0)
    leaving.cancel()
    following = asyncio.ensure_future(control.execute(creating("a")))
    await asyncio.sleep(0)
    log.open.set()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    with pytest.raises(KafkaError):
        await following
    assert len(log.appended) == len(applied) == 1
    assert "a" in control.image.topics.by_name


async def test_a_client_that_goes_away_before_its_turn_has_asked_for_nothing(control, log):
    """A command that is cancelled while it waits behind another one is not carried out."""
    log.open.clear()
    first = asyncio.ensure_future(control.execute(creating("a")))
    second = asyncio.ensure_future(control.execute(creating("b")))
    await asyncio.sleep(0)
    second.cancel()
    log.open.set()
    assert await first == "made a"
    with pytest.raises(asyncio.CancelledError):
        await second
    assert sorted(control.image.topics.by_name) == ["a"]


async def test_a_command_holds_when_it_is_answered_and_not_before(control, log, applied):
    """The image changes after the append, and whoever follows the image hears before the caller."""
    log.open.clear()
    task = asyncio.ensure_future(control.execute(creating("t")))
    await asyncio.sleep(0)
    assert control.image is EMPTY_IMAGE
    log.open.set()
    assert await task == "made t"
    assert list(control.image.topics.by_name) == ["t"]
    assert control.image.provenance == (0, 3, 99)
    assert applied[0][0] is control.image
    assert applied[0][1].changed_topic_ids == {topic("t").topic_id}


async def test_the_next_command_waits_until_the_last_one_is_applied(log):
    """However many turns that takes; who asked is answered after it, too."""
    events, gate = [], asyncio.Event()

    async def on_applied(image, _delta):
        events.append(len(image.topics.by_name))
        await gate.wait()

    control = ControlPlane(EMPTY_IMAGE, log, SimpleNamespace(wall_ms=lambda: 99), on_applied)
    tasks = [asyncio.ensure_future(control.execute(creating(name))) for name in "ab"]
    for _ in range(10):
        await asyncio.sleep(0)
    assert (events, [task.done() for task in tasks]) == ([1], [False, False])
    gate.set()
    assert await asyncio.gather(*tasks) == ["made a", "made b"]
    assert events == [1, 2]


async def test_commands_see_what_earlier_ones_did(control, log):
    """They are decided one after the other, however many come at once."""
    log.open.clear()
    tasks = [asyncio.ensure_future(control.execute(creating("t"))) for _ in range(3)]
    await asyncio.sleep(0)
    log.open.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results[0] == "made t"
    assert [one.code for one in results[1:]] == [ErrorCode.TOPIC_ALREADY_EXISTS] * 2
    assert len(log.appended) == 1


async def test_a_command_without_records_writes_nothing(control, log, applied):
    """Validation, and deletions of what is not there."""
    assert await control.execute(lambda _image: Decision((), "fine")) == "fine"
    assert (log.appended, applied) == ([], [])


async def test_a_failed_write_changes_nothing_and_holds_nobody_up(control, log, applied):
    """The error reaches its caller, the next command is carried out."""
    log.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(KafkaError):
        await control.execute(creating("t"))
    assert control.image is EMPTY_IMAGE
    log.error = None
    assert await control.execute(creating("t")) == "made t"
    assert len(applied) == 1


async def test_snapshots_are_written_behind_commands_and_their_errors_are_the_disks(control, log):
    """An image that was not written out does not undo what is in the log."""
    log.snapshot_due = True
    await control.execute(creating("t"))
    assert log.snapshots == [0]
    log.snapshot_error = OSError(28, "full")
    assert await control.execute(creating("u")) == "made u"
    assert log.reported == [log.snapshot_error]


async def test_producer_ids_come_in_blocks_one_after_the_other(control, log):
    """However many ask at once, each block is written once, before any id of it is given."""
    from stratalog.metadata.controller import BrokerStart, register_broker

    start = BrokerStart(broker_id=1, incarnation_id=b"x" * 16, listeners={}, directories=(b"d" * 16,), rack=None)
    await control.execute(lambda image: register_broker(image, start, broker_epoch=0, unclean_allowed=lambda _: False))
    ids = ProducerIds(control, 1)
    given = await asyncio.gather(*[ids.next() for _ in range(1500)])
    assert given == list(range(1500))
    blocks = [record for records in log.appended for record in records if isinstance(record, ProducerIdsRecord)]
    assert [block.next_producer_id for block in blocks] == [1000, 2000]


async def test_what_cannot_be_prepared_is_not_written(log, applied):
    """A note that has to be on disk first may fail: then there is no record, and the next command is none the wiser."""
    told = []

    def before(image, records):
        told.append((image, len(records)))
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")

    async def on_applied(image, delta):
        applied.append((image, delta))

    control = ControlPlane(EMPTY_IMAGE, log, SimpleNamespace(wall_ms=lambda: 99), on_applied, before=before)
    log.open.set()
    with pytest.raises(KafkaError, match="full"):
        await control.execute(creating("a"))
    assert told == [(EMPTY_IMAGE, 1)]
    assert log.appended == []
    assert applied == []
