"""The driver of a coordinator shard: answers after commits, one append a turn, nothing survives a failed append."""

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from stratalog.broker.coordinators import shard_driver
from stratalog.broker.coordinators.driver_state import DriverState
from stratalog.metadata.coordination import Producer
from stratalog.wire.batch import build_control_batch, iter_headers
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records import control


def batches(rig) -> list:
    """The headers of what stands in the log."""
    return [header for _, header in iter_headers(Path(rig.partition.log.segments()[0].path).read_bytes())]


def marker(producer: Producer, *, commit: bool) -> bytearray:
    """The end of a transaction."""
    return build_control_batch(
        control.ControlType.COMMIT if commit else control.ControlType.ABORT,
        control.encode_record(control.EndTxnMarker(coordinator_epoch=0)),
        offset=0,
        timestamp_ms=1,
        leader_epoch=3,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transactional=True,
    )


def end(driver, producer: Producer, done, *, commit: bool = True, version: int = 0) -> None:
    """End a producer's transaction; ``version`` is that of transactions."""
    event = "ended", producer, commit
    driver.end_transaction(marker(producer, commit=commit), event, done, transaction_version=version)


async def test_writes_of_one_turn_are_one_append_and_are_answered_when_committed(rig, events):
    """Group commit: many requests, one batch; no request is answered before."""
    driver = await rig.loaded()
    tokens = [events.Token() for _ in range(20)]
    for number, token in enumerate(tokens):
        driver.ask(events.Put(token, {b"k%d" % number: b"v"}))
    assert [token.answers for token in tokens] == [[]] * 20
    await rig.until(lambda: tokens[-1].answers)
    assert [token.answers for token in tokens] == [["done"]] * 20
    assert [header.record_count for header in batches(rig)] == [20]


async def test_a_write_of_very_many_records_is_several_appends_and_one_answer(rig, events):
    """No append keeps the loop for long; the answer leaves with the last of them."""
    driver = await rig.loaded()
    token = events.Token()
    driver.ask(events.Put(token, {b"k%d" % number: b"" for number in range(12_000)}, divisible=True))
    await rig.until(lambda: token.answers)
    assert [header.record_count for header in batches(rig)] == [5_000, 5_000, 2_000]
    assert token.answers == ["done"]


async def test_a_read_of_uncommitted_state_waits_for_it(rig, events):
    """A durable answer leaves behind the writes before it; any other at once."""
    driver = await rig.loaded()
    put, durable, hasty, idle = (events.Token() for _ in range(4))
    driver.ask(events.Put(put, {b"k": b"v"}))
    driver.ask(events.Get(durable, durable=True))
    driver.ask(events.Get(hasty))
    assert (durable.answers, hasty.answers) == ([], [{b"k": b"v"}])
    await rig.until(lambda: durable.answers)
    assert put.answers == ["done"]
    driver.ask(events.Get(idle, durable=True))
    assert idle.answers == [{b"k": b"v"}]


async def test_written_records_are_loaded_again(rig, events):
    """The log is all there is; until it is read, requests are answered that it is being read."""
    driver = await rig.loaded()
    token = events.Token()
    for number in range(300):
        driver.ask(events.Put(token, {b"k%d" % (number % 7): b"%d" % number}))
    await rig.until(lambda: len(token.answers) == 300)
    values = dict(driver.shard.values)
    driver = await rig.reopen()
    assert driver.shard.values == values
    assert driver.shard.is_loaded
    assert rig.active == [driver]
    rig.open()
    with pytest.raises(KafkaError) as caught:
        rig.driver.ask(events.Get(token))
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_transactions_have_batches_of_their_own_and_end_in_their_place(rig, events):
    """A producer's records are marked as such, the marker stands behind them, and a load sees only committed ones."""
    driver = await rig.loaded()
    kept, dropped = Producer(7, 0), Producer(8, 2)
    token, done = events.Token(), []
    driver.ask(events.Put(token, {b"plain": b"1"}))
    driver.ask(events.Put(token, {b"kept": b"2"}, producer=kept))
    driver.ask(events.Put(token, {b"dropped": b"3"}, producer=dropped))
    end(driver, kept, done.append)
    end(driver, dropped, done.append, commit=False)
    await rig.until(lambda: len(done) == 2)
    found = [(one.producer_id, one.is_transactional, one.is_control) for one in batches(rig)]
    assert found == [(-1, False, False), (7, True, False), (8, True, False), (7, True, True), (8, True, True)]
    assert driver.shard.heard == [("ended", kept, True), ("ended", dropped, False)]
    values = {b"plain": b"1", b"kept": b"2"}
    assert driver.shard.values == values
    driver = await rig.reopen()
    assert driver.shard.values == values


async def test_the_shard_hears_that_its_write_is_committed(rig, events):
    """Follow-up work begins then, not earlier."""
    driver = await rig.loaded()
    token = events.Token()
    driver.ask(events.Put(token, {b"k": b"v"}, then=("next",)))
    assert driver.shard.heard == []
    await rig.until(lambda: driver.shard.heard)
    assert driver.shard.heard == ["next"]
    assert token.answers == ["done"]


async def test_a_failed_append_fails_everybody_and_the_state_is_what_the_log_says(rig, events):
    """Uncommitted state does not survive in memory: waiting requests have to
    find their coordinator, and the log is read again.
    """
    driver = await rig.loaded()
    first, second, parked, late = (events.Token() for _ in range(4))
    driver.ask(events.Put(first, {b"k": b"old"}))
    await rig.until(lambda: first.answers)
    rig.partition.held_back = "a test"
    driver.ask(events.Park(parked))
    driver.ask(events.Put(second, {b"k": b"new"}))
    driver.ask(events.Get(late, durable=True))
    await rig.until(lambda: late.answers)
    refused = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert (second.answers, parked.answers, late.answers) == (refused, refused, refused)
    assert driver.state is DriverState.LOADING
    rig.partition.held_back = None
    await rig.until(lambda: driver.active)
    assert driver.shard.values == {b"k": b"old"}


async def test_a_leader_epoch_that_ends_under_a_write_is_no_error(rig, events, caplog):
    """The client asks again; writes go on under the new leadership, with what the log says."""
    caplog.set_level(logging.INFO)
    driver = await rig.loaded()
    cut, after = events.Token(), events.Token()
    driver.ask(events.Put(cut, {b"k": b"cut"}))
    driver._flush()
    rig.partition.lead(0, 4, replicas=[0], in_sync=[0])
    assert cut.answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert [one.levelname for one in caplog.records if "loaded anew" in one.getMessage()] == ["INFO"]
    await rig.until(lambda: driver.active)
    assert (driver.epoch, driver.shard.values) == (4, {b"k": b"cut"})
    driver.ask(events.Put(after, {b"k": b"new"}))
    await rig.until(lambda: after.answers)
    assert after.answers == ["done"]


async def test_a_shard_that_fails_in_an_event_is_loaded_anew(rig, events, caplog):
    """It may have changed without a record: what it had changed is forgotten, and everybody is answered once."""
    driver = await rig.loaded()
    kept, parked, queued, failing = (events.Token() for _ in range(4))
    driver.ask(events.Put(kept, {b"k": b"old"}))
    await rig.until(lambda: kept.answers)
    driver.ask(events.Park(parked))
    driver.ask(events.Put(queued, {b"k": b"queued"}))
    step = driver.shard.step
    driver.shard.step = lambda event, now: len(step(event, now)) // 0
    driver.ask(events.Put(failing, {b"k": b"new"}))
    refused = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert (queued.answers, parked.answers, failing.answers) == (refused, refused, [ErrorCode.UNKNOWN_SERVER_ERROR])
    assert "ZeroDivisionError" in caplog.text
    await rig.until(lambda: driver.active)
    assert driver.shard.values == {b"k": b"old"}


async def test_a_shard_whose_deadline_fails_is_loaded_anew(rig, events):
    """Its other deadlines would never come otherwise."""
    driver = await rig.loaded()
    token = events.Token()
    driver.shard.due = lambda now: 1 // 0
    driver.ask(events.Park(token, 1))
    await rig.until(lambda: token.answers)
    assert token.answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    await rig.until(lambda: driver.active)


async def test_the_end_of_a_transaction_is_known_before_it_is_written(rig):
    """Until the turn of the loop is over the log still calls the transaction open."""
    driver = await rig.loaded()
    done = []
    end(driver, Producer(7, 1), done.append, version=1)
    assert [driver.ends(Producer(*one)) for one in ((7, 0), (7, 1), (8, 0))] == [True, True, False]
    await rig.until(lambda: done)
    assert not driver.ends(Producer(7, 0))
    end(driver, Producer(7, 2), done.append, version=2)
    assert [driver.ends(Producer(7, epoch)) for epoch in (1, 2)] == [True, False]  # 2 is the next transaction's


async def opened_behind(rig, events, *, late_first: bool):
    """Transaction N has ended under version 2. In one turn come a late copy of its marker and N+1's first record.

    Returns the driver, the producer of N+1, and what the late marker's sender and the record's hear.
    """
    driver = await rig.loaded()
    token, told, late = events.Token(), [], []
    driver.ask(events.Put(token, {b"k": b"n"}, producer=Producer(7, 0)))
    producer = Producer(7, 1)
    end(driver, producer, told.append, version=2)
    await rig.until(lambda: told)
    assert driver.shard.heard == [("ended", producer, True)]
    driver.shard.pending.clear()  # groups tell producers apart by id alone
    second = events.Token()
    if late_first:
        end(driver, producer, late.append, version=2)
    driver.ask(events.Put(second, {b"k": b"n+1"}, producer=producer))
    if not late_first:
        end(driver, producer, late.append, version=2)
    await rig.until(lambda: second.answers and late)
    assert second.answers == ["done"]
    return driver, producer, late[0]


async def test_a_late_copy_of_a_marker_ends_nothing_of_the_next_transaction(rig, events):
    """Behind the first record it is refused as in a partition of data, and the shard goes on with all that it has."""
    driver, producer, outcome = await opened_behind(rig, events, late_first=False)
    assert outcome.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert rig.partition.log.producer_state.has_open_transaction(*producer)
    assert (driver.active, driver.shard.pending) == (True, {producer: {b"k": b"n+1"}})
    done = []
    end(driver, Producer(7, 2), done.append, version=2)
    await rig.until(lambda: done)
    assert driver.shard.heard[1:] == [("ended", Producer(7, 2), True)]


async def test_a_late_copy_of_a_marker_in_front_of_the_next_transaction_is_not_heard_of(rig, events):
    """It stands before the record, and is committed after the shard has taken it: in memory it would end what is open."""
    driver, producer, outcome = await opened_behind(rig, events, late_first=True)
    assert not isinstance(outcome, KafkaError)
    assert driver.shard.heard == [("ended", producer, True)]
    assert driver.shard.pending == {producer: {b"k": b"n+1"}}
    assert rig.partition.log.producer_state.has_open_transaction(*producer)


async def test_an_answer_behind_a_refused_marker_is_given(rig, events):
    """It waits for what is written before it, and a marker that is refused is not."""
    driver = await rig.loaded()
    token, late, read = events.Token(), [], events.Token()
    driver.ask(events.Put(token, {b"k": b"v"}, producer=Producer(7, 1)))
    await rig.until(lambda: token.answers)
    end(driver, Producer(7, 1), late.append, version=2)
    driver.ask(events.Get(read, durable=True))
    await rig.until(lambda: late)
    assert read.answers == [{}]
    assert driver.active


async def test_deadlines_of_the_shard_are_kept(rig, events):
    """No deadline is met early, and the later of two is met after the sooner."""
    driver = await rig.loaded()
    now_ms = driver.now().monotonic_ms
    late, soon = events.Token(), events.Token()
    driver.ask(events.Park(late, now_ms + 60))
    driver.ask(events.Park(soon, now_ms + 20))
    await rig.until(lambda: soon.answers)
    assert driver.now().monotonic_ms >= now_ms + 20
    await rig.until(lambda: late.answers)
    assert driver.now().monotonic_ms >= now_ms + 60


async def test_a_damaged_log_is_left_alone_and_said(rig, events, caplog):
    """The partition is not coordinated, the file stays as it is, and the message names it."""
    driver = await rig.loaded()
    for _ in range(2):  # the last batch of a log is looked at when it is opened
        token = events.Token()
        driver.ask(events.Put(token, {b"k": b"v" * 100}))
        await rig.until(lambda token=token: token.answers)
    path = Path(rig.partition.log.segments()[0].path)
    data = bytearray(path.read_bytes())
    data[100] ^= 0xFF
    path.write_bytes(data)
    size_bytes = rig.partition.log.size_bytes
    driver.close()
    rig.open()
    rig.driver.load()
    await rig.until(lambda: rig.driver.state is DriverState.FAILED)
    assert "keys-0" in rig.driver.failure
    assert rig.driver.failure in caplog.text
    assert rig.partition.log.size_bytes == size_bytes
    with pytest.raises(KafkaError) as caught:
        rig.driver.ask(events.Get(token))
    assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_log_that_cannot_be_read_for_now_is_said_and_tried_again(rig, events, caplog, monkeypatch):
    """An error of the disk, until there is none."""
    monkeypatch.setattr(shard_driver, "_RELOAD_AFTER_SECONDS", 0.001)
    good, failures = shard_driver.load_log, [OSError(5, "Input/output error")] * 3

    async def load(log, shard, monotonic):
        if failures:
            shard.replay(b"read", b"of it", offset=0, producer=None)
            raise failures.pop()
        return await good(log, shard, monotonic)

    monkeypatch.setattr(shard_driver, "load_log", load)
    rig.driver.load()
    await rig.until(lambda: rig.driver.failure)
    assert "keys-0" in rig.driver.failure
    assert "Input/output error" in rig.driver.failure
    await rig.until(lambda: rig.driver.active)
    assert rig.driver.failure is None
    assert caplog.text.count("could not be read") == 3
    assert rig.driver.shard.values == {}


async def test_a_long_load_is_not_repeated_at_once(rig, monkeypatch):
    """While every write fails, most of the time is left for others."""
    driver = await rig.loaded()
    waits = []
    monkeypatch.setattr(driver, "_loop", SimpleNamespace(call_later=lambda seconds, _: waits.append(seconds)))
    for seconds in (0.001, 4.0):
        driver._load_seconds = seconds
        driver._reload_later()
    assert waits == [0.5, 12.0]


async def test_a_load_that_fails_of_itself_is_said_too(rig, events, caplog):
    """No request waits for a load that is over."""
    driver = await rig.loaded()
    token = events.Token()
    driver.ask(events.Put(token, {b"k": b"v"}))
    await rig.until(lambda: token.answers)
    driver.close()
    rig.open()
    rig.driver.shard.replay = lambda *_, **__: 1 // 0
    rig.driver.load()
    await rig.until(lambda: rig.driver.state is DriverState.FAILED)
    assert "keys-0" in rig.driver.failure
    assert "ZeroDivisionError" in caplog.text


async def test_a_drained_driver_answers_pending_writes_and_takes_no_more(rig, events):
    """A stop loses no answer that it can still give; those who wait for others are sent away."""
    driver = await rig.loaded()
    written, parked = events.Token(), events.Token()
    driver.ask(events.Park(parked))
    driver.ask(events.Put(written, {b"k": b"v"}))
    driver.drain()
    assert parked.answers == [ErrorCode.NOT_COORDINATOR]
    await rig.until(lambda: written.answers)
    assert written.answers == ["done"]
    with pytest.raises(KafkaError):
        driver.ask(events.Get(written))
    driver.close()
    assert parked.answers == [ErrorCode.NOT_COORDINATOR]


async def test_a_drained_driver_whose_append_fails_stays_closed(rig, events):
    """Those who were sent away are not answered twice, and nothing is loaded for a broker that stops."""
    driver = await rig.loaded()
    parked, put = events.Token(), events.Token()
    driver.ask(events.Park(parked))
    driver.ask(events.Put(put, {b"k": b"v"}))
    driver._flush()
    driver.drain()
    rig.partition.leader.take_down(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker stops"))
    assert (parked.answers, put.answers) == ([ErrorCode.NOT_COORDINATOR], [ErrorCode.COORDINATOR_NOT_AVAILABLE])
    assert driver.state is DriverState.CLOSED


async def test_a_closed_driver_fails_everybody_once(rig, events):
    """Another broker may lead already: what is under way may or may not hold, and the client has to ask there."""
    driver = await rig.loaded()
    tokens = [events.Token() for _ in range(3)]
    driver.ask(events.Park(tokens[0]))
    driver.ask(events.Put(tokens[1], {b"k": b"v"}))
    driver.ask(events.Get(tokens[2], durable=True))
    driver.close()
    driver.close()
    await asyncio.sleep(0.01)
    assert [token.answers for token in tokens] == [[ErrorCode.NOT_COORDINATOR]] * 3


async def test_other_actions_are_their_drivers(rig, events):
    """The driver of a kind of coordinator carries them out; a write of nothing is an answer."""
    driver = await rig.loaded()
    driver.shard.step = lambda event, now: ["something"]
    driver.ask("event")
    assert rig.performed == ["something"]


async def test_a_shard_that_fails_when_it_is_loaded_is_loaded_anew(rig, events, monkeypatch):
    """A load that failed once is repeated; until it succeeds the shard takes no events."""
    failures = [ValueError("a test")]

    def loaded(_shard, _now):
        if failures:
            raise failures.pop()
        return []

    monkeypatch.setattr(events.Keys, "loaded", loaded)
    rig.driver.load()
    await rig.until(lambda: not failures)
    assert not rig.driver.active
    await rig.until(lambda: rig.driver.active)
    token = events.Token()
    rig.driver.ask(events.Get(token))
    assert token.answers == [{}]
