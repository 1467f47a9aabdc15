"""Commands: one at a time, written before they hold."""

import asyncio
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.broker.control.control_plane import LONG, ControlPlane
from stratalog.metadata.controller.controller import Decision
from stratalog.metadata.image.decision import RECORDS_TOGETHER, at_once
from stratalog.metadata.image.image import EMPTY_IMAGE, ImageDelta, Provenance
from stratalog.metadata.image.same_image import same_everywhere, same_to_topics
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import ProducerIdsRecord, RemoveTopicRecord, TopicRecord


class MetadataLog:
    """A quorum of one that takes records when the test lets it, and publishes them."""

    in_transaction = False

    def __init__(self, on_applied=None) -> None:
        self.appended = []
        self.open = asyncio.Event()
        self.open.set()
        self.error = None
        self.image = EMPTY_IMAGE
        self.epoch = 3
        self._on_applied = on_applied

    @property
    def active_epoch(self):
        if self.epoch is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return self.epoch

    def propose(self, records, *, epoch):
        return asyncio.ensure_future(self._propose(tuple(records), epoch))

    async def _propose(self, records, epoch):
        await self.open.wait()
        if self.error is not None:
            raise self.error
        if epoch != self.active_epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        self.appended.append(records)
        delta = ImageDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.build(Provenance(self.image.provenance.offset + len(records), epoch, 99))
        if self._on_applied is not None:
            await self._on_applied(self.image, delta)
        return self.image.provenance.offset


@pytest.fixture
async def applied():
    """The images that were announced."""
    return []


@pytest.fixture
async def log(applied):
    async def on_applied(image, delta):
        await asyncio.sleep(0)
        applied.append((image, delta))

    return MetadataLog(on_applied)


@pytest.fixture
async def control(log):
    return ControlPlane(log)


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=name.encode().ljust(16, b"\1"))


def creating(name: str):
    """A command that fails if the topic is there already."""

    def decide(image):
        if name in image.topics.by_name:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS)
        return Decision((topic(name),), f"made {name}")

    return decide


async def test_a_client_that_goes_away_leaves_no_unknown_records(control, log, applied):
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
    """The image changes after the append, and followers of the image hear before the caller."""
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


async def test_the_next_command_waits_until_the_last_one_is_applied():
    """The callback may take many turns; the caller is answered after it, too."""
    events, gate = [], asyncio.Event()

    async def on_applied(image, _delta):
        events.append(len(image.topics.by_name))
        await gate.wait()

    control = ControlPlane(MetadataLog(on_applied))
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


async def test_a_failed_write_changes_nothing_and_delays_no_other_command(control, log, applied):
    """The error reaches its caller, the next command is carried out."""
    log.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(KafkaError):
        await control.execute(creating("t"))
    assert control.image is EMPTY_IMAGE
    log.error = None
    assert await control.execute(creating("t")) == "made t"
    assert len(applied) == 1


async def test_a_command_is_refused_where_another_node_decides(control, log):
    """Before it is decided; one whose epoch ends while it is decided is not written in the next."""
    log.epoch = None
    with pytest.raises(KafkaError) as refused:
        await control.execute(creating("t"))
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    log.epoch = 3

    def slowly(image):
        decision = creating("t")(image)
        log.epoch = 5
        return decision

    with pytest.raises(KafkaError) as refused:
        await control.execute(slowly)
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    assert log.appended == []
    assert await control.execute(creating("t")) == "made t"


async def test_a_command_about_very_many_things_is_written_in_batches(control, log):
    """An atomic one as a metadata transaction."""
    records = tuple(topic(f"t{number}") for number in range(RECORDS_TOGETHER + 1))
    await control.execute(lambda _image: Decision(records, None, is_atomic=False))
    assert list(map(len, log.appended)) == [RECORDS_TOGETHER, 1]


async def test_producer_ids_come_in_blocks_one_after_the_other(control, log):
    """For 1500 callers at once each block is written once, before any id of it is given."""
    from stratalog.broker.control.producer_ids import ProducerIds, allocate_here
    from stratalog.metadata.controller.controller import BrokerStart, register_broker

    start = BrokerStart(broker_id=1, incarnation_id=b"x" * 16, listeners={}, directories=(b"d" * 16,), rack=None)
    await control.execute(lambda image: register_broker(image, start, broker_epoch=0, unclean_allowed=lambda _: False))
    ids = ProducerIds(partial(allocate_here, control, 1))
    given = await asyncio.gather(*[ids.next() for _ in range(1500)])
    assert given == list(range(1500))
    blocks = [record for records in log.appended for record in records if isinstance(record, ProducerIdsRecord)]
    assert [block.next_producer_id for block in blocks] == [1000, 2000]


async def test_a_failed_preparation_is_not_written(log, applied):
    """A note that has to be on disk first may fail: then there is no record, and the next command is none the wiser."""
    told = []

    def before(image, records):
        told.append((image, len(records)))
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")

    control = ControlPlane(log, before=before)
    log.open.set()
    with pytest.raises(KafkaError, match="full"):
        await control.execute(creating("a"))
    assert told == [(EMPTY_IMAGE, 1)]
    assert log.appended == []
    assert applied == []


NAMES = "abcd"
COMMANDS = st.lists(
    st.tuples(
        st.sampled_from(["create", "remove", "ask"]),
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True),
        st.sampled_from([1, LONG]),
        st.sampled_from([same_everywhere, None]),
        st.integers(0, 6),
        st.booleans(),
    ),
    max_size=12,
)


def deciding(kind, names):
    """A command in steps: each name is made or removed, if it can be; ``ask`` says which could be made."""

    def decide(image):
        records, results = [], []
        for name in names:
            there = name in image.topics.by_name
            results.append((name, there))
            if kind == "create" and not there:
                records.append(topic(name))
            elif kind == "remove" and there:
                records.append(RemoveTopicRecord(topic_id=topic(name).topic_id))
            yield
        return Decision(tuple(records), tuple(results))

    return decide


async def _turns_between(steps):
    """Carry out steps; others have their turns after each."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        await asyncio.sleep(0)


@pytest.mark.story
@given(commands=COMMANDS)
def test_each_command_has_the_result_that_it_has_alone(commands):
    """Commands come at any time from several clients, some leave: those with records are decided on the image before
    their records; those without on one of the images between their beginning and their end.
    """

    async def story():
        images = [EMPTY_IMAGE]

        async def on_applied(image, _delta):
            images.append(image)
            await asyncio.sleep(0)

        log = MetadataLog(on_applied)
        control = ControlPlane(log, in_slices=_turns_between, aside=_turns_between)

        async def one(kind, names, size, same, delay, _leaves):
            for _ in range(delay):
                await asyncio.sleep(0)
            first = len(images) - 1
            decide, written = deciding(kind, names), len(log.appended)
            result = await control.execute(
                decide,
                source=delay % 3,
                size=size,
                only_asks=kind == "ask",
                same=same or same_to_topics(names),
            )
            decisions = [at_once(decide)(image) for image in images[first:]]
            mine = [(one.records, one.result) for one in decisions if one.result == result]
            assert any(not records or records in log.appended[written:] for records, _ in mine)

        tasks = [asyncio.ensure_future(one(*command)) for command in commands]
        for _ in range(5):
            await asyncio.sleep(0)
        for task, command in zip(tasks, commands, strict=True):
            if command[-1] and command[-2] > 3:
                task.cancel()
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        assert all(one is None or isinstance(one, asyncio.CancelledError) for one in outcomes), outcomes
        # The log holds the same as a log of commands one by one: it can be read from the beginning.
        image = EMPTY_IMAGE
        for number, records in enumerate(log.appended, 1):
            image = image.apply(records)
            assert image.topics.by_name.keys() == images[number].topics.by_name.keys()

    asyncio.run(story())


async def test_a_query_does_not_wait_for_the_turn_of_another_client(control, log):
    """A query and a long command without records end while a command of another client is being written."""
    log.open.clear()
    writing = asyncio.ensure_future(control.execute(creating("a")))
    await asyncio.sleep(0)
    async with asyncio.timeout(1):
        assert await control.execute(lambda _image: Decision((), "fine"), only_asks=True) == "fine"
        assert await control.execute(lambda _image: Decision((), "none"), size=LONG) == "none"
    assert not writing.done()
    log.open.set()
    await writing


async def test_a_long_command_is_decided_once_if_the_others_do_not_concern_it(log):
    """It is decided beside a short one about another topic, and a second time only after one about its own."""
    gate = asyncio.Event()

    async def aside(steps):
        await gate.wait()
        return at_once(lambda: steps)()

    control = ControlPlane(log, aside=aside)
    for other, times in (("x", 1), ("b", 2)):
        decided = []
        names = ["b", "c"] if other == "b" else ["a"]

        def decide(image, names=names, decided=decided):
            decided.append(1)
            return deciding("create", names)(image)

        gate.clear()
        long = asyncio.ensure_future(control.execute(decide, size=LONG, same=same_to_topics(names)))
        await asyncio.sleep(0)
        async with asyncio.timeout(1):
            await control.execute(creating(other))  # the long one does not keep it waiting
        gate.set()
        outcome = await long
        assert len(decided) == times
    assert outcome == (("b", True), ("c", False))
