"""The first records of an office stand in front of all that is decided in it."""

import asyncio

import pytest

from stratalog.broker.control.control_plane import LONG, ControlPlane
from stratalog.metadata.image.decision import Decision
from stratalog.metadata.image.features import bootstrap_records
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import BeginTransactionRecord, FeatureLevelRecord
from tests.broker.control.test_control_plane import MetadataLog
from tests.broker.control.test_control_plane_transactions import ReplayedLog, creating, topic

FULL = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
LEVEL = FeatureLevelRecord(name="metadata.version", feature_level=30)


def first_records(image):
    """Those of a new cluster."""
    return Decision(() if image.features else (LEVEL,), None)


@pytest.fixture
async def log():
    return MetadataLog()


@pytest.fixture
async def control(log):
    return ControlPlane(log, activate=first_records)


def noting(decided):
    """A command that notes the features on which it is decided."""

    def decide(image):
        decided.append(dict(image.features))
        return Decision((), "asked")

    return decide


async def test_the_first_records_are_written_once_whichever_command_comes_first(control, log):
    """Many come at once; another office writes only what is missing."""
    log.open.clear()
    tasks = [asyncio.ensure_future(control.execute(creating(name))) for name in "ab"]
    tasks += [asyncio.ensure_future(control.begin("duties")), asyncio.ensure_future(control.write((topic("c"),)))]
    await asyncio.sleep(0)
    log.open.set()
    await asyncio.gather(*tasks)
    assert log.appended == [(LEVEL,), (topic("a"),), (topic("b"),), (topic("c"),)]
    log.epoch = 4
    await control.execute(creating("d"))
    assert log.appended[4:] == [(topic("d"),)]


async def test_first_records_that_are_refused_let_no_command_pass(control, log):
    """Each caller hears so at once: short ones, long ones and those that only ask. They find the cluster begun later."""
    decided = []
    kinds = ({}, {"only_asks": True}, {"size": LONG})
    log.error = FULL
    for options in kinds * 2:
        with pytest.raises(KafkaError, match="the disk is full"):
            await asyncio.wait_for(control.execute(noting(decided), **options), 1)
    with pytest.raises(KafkaError, match="the disk is full"):
        await control.write((topic("a"),))
    assert decided == log.appended == []
    log.error = None
    for options in kinds:
        assert await control.execute(noting(decided), **options) == "asked"
    assert decided == [{"metadata.version": 30}] * 3
    assert log.appended == [(LEVEL,)]


async def test_no_command_passes_while_the_first_records_wait_for_a_majority(control, log):
    """They wait as long as the office lasts, and hear when it ends."""
    decided = []
    log.open.clear()
    waiting = [asyncio.ensure_future(control.execute(noting(decided), only_asks=asks)) for asks in (False, True)]
    await asyncio.sleep(0.01)
    assert decided == []
    log.epoch = None
    log.open.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [one.code for one in outcomes] == [ErrorCode.NOT_CONTROLLER] * 2
    assert decided == log.appended == []


async def test_a_client_that_goes_away_during_the_first_records_leaves_the_office_begun(control, log):
    """They are carried to their end, and the next command does not write them again."""
    log.open.clear()
    leaving = asyncio.ensure_future(control.execute(creating("never")))
    await asyncio.sleep(0)
    leaving.cancel()
    log.open.set()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await control.execute(creating("a"))
    assert log.appended == [(LEVEL,), (topic("a"),)]


async def test_the_end_of_an_open_transaction_stands_in_front_of_the_first_records():
    """The controller before died inside the beginning of the cluster: that never holds, and it begins again."""
    log = ReplayedLog()
    log.take(BeginTransactionRecord(), topic("half"))
    bootstrap = tuple(bootstrap_records())
    control = ControlPlane(log, activate=lambda _image: Decision((*bootstrap, topic("first")), None))
    log.failures = {0: FULL, 2: FULL}
    for _ in range(2):
        with pytest.raises(KafkaError, match="the disk is full"):
            await control.execute(creating("never"))
    await control.execute(creating("after"))
    assert (log.aborts(), list(log.image.topics.by_name)) == (1, ["first", "after"])
