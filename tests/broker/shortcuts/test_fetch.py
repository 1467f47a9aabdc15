"""The shortcut of fetches: nothing but the time it takes tells by which way a request went."""

import importlib.util
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stratalog.broker.api import fetch
from stratalog.broker.runtime.purgatory import Purgatory
from stratalog.broker.shortcuts import fetch as fetch_shortcut
from stratalog.broker.shortcuts import fetch_session as fetch_session_shortcut
from stratalog.broker.shortcuts.fetch import FetchShortcut
from stratalog.broker.shortcuts.fetch_route import FetchRoute
from stratalog.broker.shortcuts.table import with_shortcuts
from stratalog.client.link import BrokerLink
from stratalog.wire.batch import iter_headers
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic


def load_rig():
    """The module beside this one; tests are no package."""
    spec = importlib.util.spec_from_file_location("fetch_rig", Path(__file__).with_name("fetch_rig.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RIG = load_rig()
FLEXIBLE_SINCE, Asked, FetchFrames = RIG.FLEXIBLE_SINCE, RIG.Asked, RIG.FetchFrames
EVENTS, append, change_table, hold = RIG.EVENTS, RIG.append, RIG.change_table, RIG.hold
note_decoded, ask, answered = RIG.note_decoded, RIG.ask, RIG.answered

(API,) = with_shortcuts([fetch.API])
LONG_WAY = fetch.API


CHANGES = st.one_of(
    st.just({}),
    st.just({}),
    st.fixed_dictionaries({"offset": st.integers(-1, 6) | st.none()}),
    st.fixed_dictionaries(
        {},
        optional={
            "version": st.integers(4, 18),
            "client_id": st.sampled_from([None, "", "client", "tneilc"]),
            "topic": st.sampled_from(["t", "u", "longer", "unknown"]),
            "partition": st.integers(0, 2),
            "offset": st.integers(-1, 6) | st.none(),
            "leader_epoch": st.sampled_from([-1, 2, 3, 4]),
            "last_epoch": st.sampled_from([-1, 3]),
            "isolation_level": st.integers(0, 1),
            "wait_ms": st.sampled_from([0, 200, 500]),
            "min_bytes": st.sampled_from([0, 1, 150, 1000]),
            "max_bytes": st.sampled_from([0, 100, 150, 1 << 20]),
            "partition_max_bytes": st.sampled_from([0, 100, 250, 1 << 20]),
            "partition_count": st.integers(1, 2),
            "session": st.sampled_from(["none", "begin", "next", "next", "old"]),
            "header_tags": st.booleans(),
            "behind": st.sampled_from([b"", b"\0"]),
        },
    ),
)
DAMAGE = st.tuples(st.integers(4, 200), st.integers(1, 255))
REQUEST = st.tuples(CHANGES, st.none() | st.none() | DAMAGE)
STEPS = st.lists(REQUEST | REQUEST | st.sampled_from(["append", *EVENTS]), min_size=3, max_size=25)


def outcome(rig, base: Asked, steps) -> list:
    """The state of a rig after these steps."""
    requests = FetchFrames(rig)
    waiting = []
    for step in steps:
        if isinstance(step, str):
            EVENTS[step](rig)
        else:
            changes, damage = step
            frame = bytearray(requests.frame(replace(base, **changes)))
            if damage is not None:
                frame[damage[0] % len(frame)] ^= damage[1]
            rig.receive(bytes(frame))
        rig.loop.now += 0.001
        rig.loop.run()
        waiting.append(len(rig.broker.purgatory))
    for _ in range(4):
        rig.loop.now += 0.3
        rig.loop.run()
    found = [waiting, sessions(rig), *rig.outcome()]
    for one in rig.connections:
        one.connection_lost(None)
    assert not [
        watcher for one in rig.partitions for watcher in one.partition.watchers if type(watcher) is FetchShortcut
    ]
    rig.close()
    return found


def sessions(rig) -> list:
    """The remembered readers."""
    kept = []
    for one in rig.broker.fetch_sessions.cache._by_use.values():
        partitions = [
            (number, each.told_high_watermark, each.told_last_stable_offset, each.told_log_start_offset, each.told_error,
             each.wanted, each in one.dirty)
            for number, each in one.partitions.items()
        ]  # fmt: skip
        kept.append((one.id, one.epoch, one.last_used_ms, one.reader is None, partitions))
    return kept


BASES = st.builds(
    Asked,
    version=st.integers(5, 18),
    isolation_level=st.integers(0, 1),
    min_bytes=st.sampled_from([1, 1, 150]),
    leader_epoch=st.sampled_from([-1, 3]),
    partition_max_bytes=st.sampled_from([100, 250, 1 << 20]),
    session=st.sampled_from(["none", "next"]),
)


@given(BASES, STEPS)
@example(Asked(isolation_level=1), ["transaction", ({}, None), "abort", ({"offset": 0}, None), "append"])
@example(Asked(), [({}, None), "remove", ({}, None), "append"])
@example(Asked(session="next"), ["append", *[({"offset": 0}, None)] * 3, ({}, None), "append", ({"offset": 1}, None)])
@example(Asked(min_bytes=150), [({}, None), "append", "append", ({"offset": 0}, None), "time", "time"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_ways_lead_to_the_same_answers_and_counts(broker_rig, monkeypatch, base, steps):
    """Random fetches, with random changes of the partition between them, are answered and counted alike."""
    monkeypatch.setattr(fetch_shortcut, "STRANGERS_MAX", 1)
    monkeypatch.setattr(fetch_session_shortcut, "STRANGERS_MAX", 1)
    found = []
    for api in (API, LONG_WAY):
        with tempfile.TemporaryDirectory() as folder:
            first = {"offset": 0, "wait_ms": 500, "session": "none" if base.session == "none" else "begin"}
            found.append(outcome(broker_rig(Path(folder), api), base, [(first, None), "append", *steps]))
    for short, long in zip(*found, strict=True):
        assert short == long


@pytest.mark.parametrize(("version", "mask"), [(7, 0x01), (11, 0xFF), (12, 0x80), (16, 0x01)])
def test_no_byte_can_be_damaged_to_another_effect(broker_rig, version, mask):
    """Each byte in turn, after two good requests: what comes of it is the same by both ways."""
    base = Asked(version=version, offset=0)
    found = []
    for api in (API, LONG_WAY):
        with tempfile.TemporaryDirectory() as folder:
            rig = broker_rig(Path(folder), api)
            steps = ["append", ({}, None), ({}, None)]
            for position in range(4, len(FetchFrames(rig).frame(base))):
                steps += [({}, None), ({}, (position, mask)), "time", "time", "connect"]
            found.append(outcome(rig, base, steps))
    assert found[0] == found[1]


@pytest.fixture
def rig(broker_rig, tmp_path):
    """A rig that notes which requests are decoded."""
    rig = note_decoded(broker_rig(tmp_path, API))
    yield rig
    rig.close()


@pytest.mark.parametrize("version", range(4, 19))
def test_the_first_request_is_decoded_and_those_like_it_are_not(rig, version):
    """Every batch comes, by whatever version; those of versions that know no sessions are decoded."""
    for number in range(4):
        append(rig, b"%d" % number)
    asked = Asked(version=version, partition_max_bytes=1)
    for offset in range(4):
        (partition,) = ask(rig, replace(asked, offset=offset))
        assert [header.base_offset for _, header in iter_headers(partition.records)] == [offset]
        assert (partition.high_watermark, partition.last_stable_offset) == (4, 4)
        assert partition.log_start_offset == (0 if version >= 5 else -1)
    assert len(rig.decoded) == (1 if version >= 7 else 4)
    assert rig.metrics.topics["t"].total_fetch_requests == 4


def test_a_reader_that_has_everything_waits_for_an_append_or_the_end_of_its_time(rig):
    """The one is answered with the batch, the other with nothing, and both are counted as waiting before."""
    append(rig)
    asked = Asked()
    ask(rig, replace(asked, offset=0))
    sent = rig.connection._transport.sent
    before = len(sent)
    assert ask(rig, asked) is None
    assert len(rig.broker.purgatory) == 1
    append(rig)
    (partition,) = answered(rig, asked, before)
    assert (bool(partition.records), partition.high_watermark) == (True, 2)
    before = len(sent)
    assert ask(rig, asked) is None
    for seconds, empty in ((0.49, False), (0.05, True)):
        rig.loop.now += seconds
        rig.loop.run()
        assert (len(sent) > before) is empty
    (partition,) = answered(rig, asked, before)
    assert (bytes(partition.records), partition.high_watermark, partition.error_code) == (b"", 2, 0)
    assert (len(rig.decoded), len(rig.broker.purgatory)) == (1, 0)


def test_a_topic_that_goes_ends_the_wait(rig):
    """With the error, at once; so it does for the next request."""
    append(rig)
    asked = Asked()
    ask(rig, replace(asked, offset=0))
    before = len(rig.connection._transport.sent)
    assert ask(rig, asked) is None
    EVENTS["remove"](rig)
    rig.loop.run()
    (partition,) = answered(rig, asked, before)
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(rig, asked)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_wait_goes_on_over_leader_epochs_and_ends_with_the_leadership(rig):
    """Its records may come in a later epoch; without a role it is answered at once."""
    append(rig)
    asked = Asked()
    ask(rig, replace(asked, offset=0))
    before = len(rig.connection._transport.sent)
    assert ask(rig, asked) is None
    EVENTS["epoch"](rig)
    rig.loop.run()
    assert answered(rig, asked, before) is None
    append(rig)
    assert answered(rig, asked, before)[0].high_watermark == 2
    before = len(rig.connection._transport.sent)
    assert ask(rig, asked) is None
    EVENTS["resign"](rig)
    rig.loop.run()
    assert answered(rig, asked, before)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_another_topic_that_comes_changes_nothing(rig):
    """The table is asked again, the request is not decoded."""
    append(rig)
    asked = Asked(offset=0)
    ask(rig, asked)
    change_table(rig)
    assert ask(rig, asked)[0].high_watermark == 1
    assert len(rig.decoded) == 1


def test_a_reader_that_keeps_up_rests_and_one_that_lags_does_not(rig):
    """After some requests in a row, each for what follows, the last answer having told everything."""
    append(rig)
    asked = Asked(partition_max_bytes=1)
    ask(rig, replace(asked, offset=0))
    shortcut = rig.connection.shortcut
    rests = []
    for _ in range(6):
        ask(rig, asked)
        append(rig)
        rests.append(shortcut.rests)
    assert rests == [False] * fetch_shortcut.RESTS_AFTER + [True] * (6 - fetch_shortcut.RESTS_AFTER)
    ask(rig, asked)
    append(rig)
    append(rig)
    assert shortcut.rests  # the second one is news
    offset = rig.partitions[0].log.log_end_offset
    append(rig)
    ask(rig, replace(asked, offset=offset - 1))
    assert not shortcut.rests


def test_a_resting_connection_is_looked_at_for_news_and_wakes_up_if_it_has_asked_nothing(rig, monkeypatch):
    """The receiver decides about the rest; a late connection has to rest anew."""
    append(rig)
    asked = Asked()
    ask(rig, replace(asked, offset=0))
    for _ in range(6):
        ask(rig, asked)
        append(rig)
    shortcut, looks = rig.connection.shortcut, []

    def look(connection):
        looks.append(connection)

    monkeypatch.setattr(type(rig.connection), "look", look)
    append(rig)
    assert looks == [rig.connection]
    shortcut.nothing_came()
    append(rig)
    assert (len(looks), shortcut.rests) == (1, False)


def test_another_kind_of_request_takes_over_when_it_has_become_usual(rig):
    """Another topic is decoded until it has come often enough, and is known from then on."""
    usual, other = Asked(topic="t", offset=0), Asked(topic="longer", offset=0, wait_ms=1, max_bytes=1000)
    append(rig)
    ask(rig, usual)
    for _ in range(fetch_shortcut.STRANGERS_MAX):
        ask(rig, other)
    count = len(rig.decoded)
    assert count == 1 + fetch_shortcut.STRANGERS_MAX
    ask(rig, other)
    assert len(rig.decoded) == count
    watching = [FetchShortcut in map(type, one.partition.watchers) for one in rig.partitions]
    assert watching == [False] * 4 + [True, False]


def test_a_waiting_fetch_goes_on_waiting_when_the_shortcut_is_forgotten(rig):
    """Another client id: the request that waited is answered as any other, and nothing of it stays behind."""
    append(rig)
    asked = Asked()
    ask(rig, replace(asked, offset=0))
    before = len(rig.connection._transport.sent)
    assert ask(rig, asked) is None
    first = rig.connection.shortcut
    rig.receive(rig.requests.frame(replace(asked, client_id="another", offset=0)))
    rig.loop.run()
    assert rig.connection.shortcut is not first
    assert answered(rig, asked, before) is None
    assert len(rig.broker.purgatory) == 1
    append(rig)
    assert answered(rig, asked, before)[0].high_watermark == 2
    assert len(rig.broker.purgatory) == 0
    assert first not in rig.partitions[0].partition.watchers


def test_an_unexpected_failure_is_answered_and_the_connection_goes_on(rig, monkeypatch, caplog):
    """UNKNOWN_SERVER_ERROR for the request that waited."""
    append(rig)
    asked = Asked(version=11)
    ask(rig, replace(asked, offset=0))
    assert ask(rig, asked) is None
    before = len(rig.connection._transport.sent)
    with monkeypatch.context() as patch:
        patch.setattr(fetch_shortcut.FullFetch, "attempt", lambda *_, **__: 1 / 0)
        hold(rig, "the test says so")
    rig.loop.run()
    hold(rig, None)
    assert rig.connection._transport.sent[before:]
    assert "ZeroDivisionError" in caplog.text
    assert ask(rig, replace(asked, offset=0))[0].high_watermark == 1


def test_an_append_does_not_suffer_from_a_failed_look(rig, monkeypatch, caplog):
    """The reader's request takes the long way, with an entry in the log; the next one is as ever."""
    append(rig)
    asked = Asked()
    ask(rig, replace(asked, offset=0))
    before = len(rig.connection._transport.sent)
    assert ask(rig, asked) is None
    with monkeypatch.context() as patch:
        patch.setattr(FetchRoute, "_look", lambda *_, **__: 1 / 0)
        append(rig)
    assert answered(rig, asked, before)[0].high_watermark == 2
    assert "ZeroDivisionError" in caplog.text
    assert ask(rig, replace(asked, offset=0))[0].high_watermark == 2
    assert len(rig.decoded) == 1


def test_a_drained_purgatory_answers_parked_fetches(rig):
    """A stopping broker does not keep a fetch until the next append."""
    append(rig)
    asked = Asked()
    ask(rig, replace(asked, offset=0))
    before = len(rig.connection._transport.sent)
    assert ask(rig, asked) is None
    purgatory: Purgatory = rig.broker.purgatory
    purgatory.drain()
    rig.loop.run()
    assert bytes(answered(rig, asked, before)[0].records) == b""


@pytest.mark.story
def test_a_reader_that_rests_gets_every_batch_once_and_in_order(start_shared_node, new_batch):
    """On real sockets, whether appends come one by one or in bursts, and whether the reader is there in time or not."""
    node = start_shared_node()
    topic_id = node.create("stream").topic_id
    batches, got, rested = 300, [], 0
    with BrokerLink("127.0.0.1", node.port) as reader, ThreadPoolExecutor(1) as threads:

        def read() -> None:
            while len(got) < batches:
                partition = FetchPartition(partition=0, fetch_offset=len(got), partition_max_bytes=1 << 20)
                topics = [FetchTopic(topic_id=topic_id, partitions=[partition])]
                answer = reader.call(FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics), 16)
                (told,) = answer.responses[0].partitions
                got.extend(header.base_offset for _, header in iter_headers(told.records))

        reading = threads.submit(read)
        for number in range(batches):
            node.append("stream", new_batch(b"%d" % number))
            if number % 50 < 45:  # the others come in a burst
                node.wait_until(lambda number=number: len(got) > number)
            rested += any(isinstance(one, FetchShortcut) and one.rests for one in node.run(shortcuts, node))
        reading.result(30)
    assert got == list(range(batches))
    assert rested > batches // 2


def shortcuts(node):
    """The connections' shortcuts; to be called in the loop."""
    return [one.shortcut for one in node.node.server.connections]
