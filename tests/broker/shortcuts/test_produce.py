"""The shortcut of produce requests: nothing but the time it takes tells by which way a request went."""

import tempfile
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from stratalog.broker.api import produce
from stratalog.broker.network.buffers import COPIED_BYTES_MAX
from stratalog.broker.shortcuts import produce as produce_shortcut
from stratalog.broker.shortcuts.table import with_shortcuts
from stratalog.wire.batch import BATCH_HEADER, CRC_START, Record, build_batch, read_header
from stratalog.wire.compression import Codec
from stratalog.wire.errors import ErrorCode
from stratalog.wire.frame import encode_request
from stratalog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from stratalog.wire.schema import decode, encode
from tests.broker.shortcuts.fetch_rig import begin_epoch, hold

(API,) = with_shortcuts([produce.API])
LONG_WAY = produce.API
BATCHES = ("small", "small", "large", "zstd", "gzip", "transactional", "opens", "goes on", "control", "retry", "next", "gap", "crc", "cut",
           "two", "empty", "null", "too large", "old magic", "counts", "future")  # fmt: skip


class Asked(Struct, frozen=True):
    """One request as a test describes it."""

    version: int = 9
    acks: int = 1
    client_id: str | None = "client"
    topic: str = "t"
    partition: int = 0
    batch: str = "small"
    timeout_ms: int = 500
    transactional_id: str | None = None
    partition_count: int = 1
    header_tags: bool = False
    body_tags: bool = False
    behind: bytes = b""


class Requests:
    """Turns descriptions into frames."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._correlation_id = -3

    def frame(self, asked: Asked) -> bytes:
        """The frame, with the next correlation id."""
        self._correlation_id += 1
        records = self.batch(asked.batch)
        numbers = range(asked.partition, asked.partition + asked.partition_count)
        data = [PartitionProduceData(index=number, records=records) for number in numbers]
        request = ProduceRequest(
            transactional_id=asked.transactional_id,
            acks=asked.acks,
            timeout_ms=asked.timeout_ms,
            topic_data=[
                TopicProduceData(name=asked.topic, topic_id=asked.topic.encode().ljust(16), partition_data=data)
            ],
        )
        flexible = asked.version >= 9
        body = b"".join(encode(request, asked.version)) + asked.behind
        if flexible and asked.body_tags:
            body = body[:-1] + b"\x01\x05\x02ab"
        frame = bytearray(
            b"".join(encode_request(0, asked.version, self._correlation_id, asked.client_id, [body], flexible=flexible))
        )
        if flexible and asked.header_tags:
            at = 4 + 10 + len((asked.client_id or "").encode())
            frame[at : at + 1] = b"\x01\x05\x02ab"
            frame[:4] = (len(frame) - 4).to_bytes(4, "big")
        return bytes(frame)

    def batch(self, kind: str) -> bytes | None:
        """A record batch, good or bad in one way."""
        if kind in ("null", "empty"):
            return None if kind == "null" else b""
        value = b"v" * {"large": COPIED_BYTES_MAX + 1, "too large": 30_000}.get(kind, 20)
        sequence = {"retry": 0, "next": 1, "gap": 7, "opens": 0, "goes on": 1}.get(kind, -1)
        options = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence} if sequence >= 0 else {}
        if kind in ("opens", "goes on"):
            options |= {"producer_id": 8, "transactional": True}
        codec = {"zstd": Codec.ZSTD, "gzip": Codec.GZIP}.get(kind, Codec.NONE)
        time_ms = self._now_ms + (10**9 if kind == "future" else 0)
        batch = build_batch([Record(0, time_ms, None, value)], codec=codec, **options)
        if kind == "cut":
            return bytes(batch[:-1])
        if kind == "two":
            return bytes(batch + batch)
        fields = {
            "transactional": {"attributes": 0x10},
            "control": {"attributes": 0x20},
            "old magic": {"magic": 1},
            "counts": {"record_count": 5},
        }.get(kind, {})
        BATCH_HEADER.pack_into(batch, 0, *read_header(batch)._replace(**fields))
        crc = crc32c(memoryview(batch)[CRC_START:]) ^ (kind == "crc")
        BATCH_HEADER.pack_into(batch, 0, *read_header(batch)._replace(crc=crc))
        return bytes(batch)


# A change of the base request, or of what is around it; most often none.
CHANGES = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"batch": st.sampled_from(BATCHES)}),
    st.fixed_dictionaries(
        {},
        optional={
            "version": st.integers(3, 13),
            "acks": st.sampled_from([-1, 0, 1, 1, 2]),
            "client_id": st.sampled_from([None, "", "client", "tneilc", "another"]),
            "topic": st.sampled_from(["t", "u", "longer", "unknown"]),
            "partition": st.integers(0, 2),
            "batch": st.sampled_from(BATCHES),
            "timeout_ms": st.sampled_from([0, 500]),
            "transactional_id": st.sampled_from([None, "tx"]),
            "partition_count": st.integers(1, 2),
            "header_tags": st.booleans(),
            "body_tags": st.booleans(),
            "behind": st.sampled_from([b"", b"\0", b"\0\0\0"]),
        },
    ),
)
DAMAGE = st.tuples(st.integers(4, 400), st.integers(1, 255))
REQUEST = st.tuples(CHANGES, st.none() | DAMAGE, st.integers(1, 4))


def compress_with(rig, codec: str) -> None:
    """The topic demands a codec, or none."""
    one = rig.partitions[0]
    one.partition.update_config(replace(one.log.config, compression_type=codec))


def pass_time(rig) -> None:
    """Some time-outs are over."""
    rig.loop.now += 1.0
    rig.partitions[0].partition.tick(rig.loop.now)


HAPPEN = {
    "run": lambda _: None,
    "tick": pass_time,
    "remove": lambda rig: rig.table.remove(rig.partitions[0]),
    "add": lambda rig: rig.table.add(rig.partitions[0]),
    "demand": lambda rig: compress_with(rig, "zstd"),
    "permit": lambda rig: compress_with(rig, "producer"),
    "start": lambda rig: rig.partitions[0].log.advance_log_start(rig.partitions[0].partition.high_watermark),
    "hold": lambda rig: hold(rig, "the test says so"),
    "serve": lambda rig: hold(rig, None),
    "epoch": begin_epoch,
    "resign": lambda rig: rig.partitions[0].partition.resign(),
    "connect": lambda rig: rig.connect(),
    "abort": lambda rig: rig.connection.abort(),
    "offline": lambda rig: rig.directory.fail(OSError(5, "gone")),
}
"""The events besides requests."""
EVENTS = st.sampled_from(["run", "run", *HAPPEN])
STEPS = st.lists(REQUEST | REQUEST | EVENTS, min_size=3, max_size=25)


def outcome(rig, base: Asked, steps, now_ms: int) -> list:
    """The state of a rig after these steps."""
    requests = Requests(now_ms)
    for step in steps:
        if isinstance(step, str):
            HAPPEN[step](rig)
            rig.loop.run()
            continue
        changes, damage, count = step
        frame = bytearray().join(requests.frame(replace(base, **changes)) for _ in range(count))
        if damage is not None:
            frame[damage[0] % len(frame)] ^= damage[1]
        rig.receive(bytes(frame))
        rig.loop.now += 0.001
    rig.loop.run()
    found = rig.outcome()
    rig.close()
    return found


@given(st.builds(Asked, version=st.integers(3, 13), acks=st.sampled_from([1, -1])), STEPS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_ways_lead_to_the_same_answers_logs_and_counts(broker_rig, now_ms, monkeypatch, base, steps):
    """Random batches, with random changes of the partition between them, are answered, stored and counted alike."""
    monkeypatch.setattr(produce_shortcut, "LOOK_EVERY", 1)
    monkeypatch.setattr(produce_shortcut, "STRANGERS_MAX", 1)
    monkeypatch.setattr(produce_shortcut, "ROUTES_MAX", 3)
    found = []
    for api in (API, LONG_WAY):
        with tempfile.TemporaryDirectory() as folder:
            found.append(outcome(broker_rig(Path(folder), api), base, [({}, None, 2), *steps], now_ms))
    for short, long in zip(*found, strict=True):
        assert short == long


@pytest.mark.parametrize(("version", "topic", "mask"), [(6, "t", 0x01), (9, "u", 0xFF), (13, "longer", 0x80)])
def test_no_byte_can_be_damaged_to_another_effect(broker_rig, now_ms, version, topic, mask):
    """Each byte in turn, after two good requests: what comes of it is the same by both ways."""
    base = Asked(version=version, topic=topic)
    steps = [({}, None, 2)]
    for position in range(4, len(Requests(now_ms).frame(base))):
        steps += [({}, None, 1), ({}, (position, mask), 1), "run", "connect"]
    found = []
    for api in (API, LONG_WAY):
        with tempfile.TemporaryDirectory() as folder:
            found.append(outcome(broker_rig(Path(folder), api), base, steps, now_ms))
    assert found[0] == found[1]


@pytest.fixture
def run(broker_rig, now_ms, tmp_path, monkeypatch):
    """Sends requests one by one; how many of them were decoded, and the answers."""
    monkeypatch.setattr(produce_shortcut, "LOOK_EVERY", 1)
    rig = broker_rig(tmp_path, API)
    requests = Requests(now_ms)
    decoded = []
    rig.services.dispatch = _noting(rig.dispatcher.dispatch, decoded)

    def ask(*asked: Asked):
        decoded.clear()
        answers = []
        for one in asked:
            sent = rig.connection._transport.sent
            before = len(sent)
            rig.receive(requests.frame(one))
            rig.loop.run()
            frame = memoryview(bytes(sent[before:]))
            answers.append(decode(ProduceResponse, one.version, frame, 9 if one.version >= 9 else 8).responses[0])
        return len(decoded), [answer.partition_responses[0] for answer in answers]

    ask.rig = rig
    yield ask
    rig.close()


def _noting(dispatch, decoded):
    def noting(connection, frame):
        decoded.append(1)
        dispatch(connection, frame)

    return noting


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [1, -1])
def test_the_first_request_is_decoded_and_those_like_it_are_not(run, version, acks):
    """Also where batches differ in size, codec and what is wrong with them."""
    usual = Asked(version=version, acks=acks)
    kinds = ["small", "large", "crc", "gzip", "future", "two", "small"]
    count, answers = run(*[replace(usual, batch=kind) for kind in kinds])
    assert count == 1
    assert [answer.base_offset for answer in answers] == [0, 1, -1, 2, -1, -1, 3]
    assert answers[2].error_code == ErrorCode.CORRUPT_MESSAGE


def test_a_batch_that_needs_a_second_look_is_decoded(run):
    """One of a transaction, one in zstd before the version that allows it, and one that is null."""
    run(Asked(version=6))
    count, answers = run(*[Asked(version=6, batch=kind) for kind in ("transactional", "zstd", "null")])
    assert count == 3
    assert [answer.error_code for answer in answers] == [
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.INVALID_RECORD,
    ]


def test_only_the_first_batch_of_a_transaction_is_decoded(run):
    """As long as it is open in the partition; a batch outside of it is looked at again."""
    usual = Asked(version=12, transactional_id="tx")
    run(usual)
    count, answers = run(*[replace(usual, batch=kind) for kind in ("opens", "goes on", "goes on", "opens", "next")])
    assert count == 2
    assert [answer.base_offset for answer in answers] == [1, 2, 2, 1, 3]


def test_every_partition_of_a_topic_is_remembered_and_so_is_a_topic_whose_name_is_as_long(run):
    """Up to a number of them; the others are decoded each time."""
    places = [Asked(topic=topic, partition=number) for topic in ("t", "u") for number in (0, 1)]
    assert run(*places, *places)[0] == 4


def test_a_learning_connection_goes_on_and_any_other_looks_rarely(run, monkeypatch):
    """Each new partition is remembered at once; of requests that cannot be, one in eight is looked at."""
    monkeypatch.setattr(produce_shortcut, "LOOK_EVERY", 8)
    places = [Asked(topic=topic, partition=number) for topic in ("t", "u") for number in (0, 1)]
    assert run(*places, *places)[0] == 4
    looks = []
    find = produce_shortcut._find_prefix
    monkeypatch.setattr(produce_shortcut, "_find_prefix", lambda *found: looks.append(1) or find(*found))
    run(*[Asked(topic="longer")] * 17)
    assert len(looks) == 3


def test_the_more_clients_the_less_is_remembered_for_each(run, monkeypatch):
    """All of them together know a bounded number of partitions, each at least some."""
    monkeypatch.setattr(produce_shortcut, "LOOK_EVERY", 1)
    monkeypatch.setattr(produce_shortcut, "ROUTES_OF_ALL", 2)
    monkeypatch.setattr(produce_shortcut, "ROUTES_MIN", 1)
    places = [Asked(partition=number) for number in (0, 1)]
    connections = run.rig.broker.server.connections
    connections |= {"one": None, "another": None}
    run(*places)
    assert run(*places)[0] == 1
    connections.popitem()
    run(*places)
    assert run(*places)[0] == 0


def test_requests_of_many_sizes_take_the_shortcut(run):
    """Each after the first one, in any order."""
    usual = Asked()
    run(usual)
    count, answers = run(*[replace(usual, batch=kind) for kind in ("small", "large", "small", "two", "small", "large")])
    assert count == 0
    assert [answer.base_offset for answer in answers] == [1, 2, 3, -1, 4, 5]


def test_another_shape_takes_over_when_it_has_become_usual(run, monkeypatch):
    """A topic with a longer name is decoded until it has come often enough, and is known from then on."""
    monkeypatch.setattr(produce_shortcut, "STRANGERS_MAX", 4)
    run(Asked(topic="t"))
    assert run(*[Asked(topic="longer")] * 4)[0] == 4
    assert run(*[Asked(topic="longer")] * 4)[0] == 0
    assert run(Asked(topic="t"))[0] == 1


def test_routes_are_forgotten_with_the_client_id_and_with_the_partitions(run):
    """Each is looked up again, and a partition that is led here no longer answers so."""
    usual = Asked()
    run(usual, usual)
    count, _ = run(replace(usual, client_id="tneilc"), usual, usual)
    assert count == 2
    rig = run.rig
    rig.table.remove(rig.partitions[0])
    count, answers = run(usual)
    assert (count, answers[0].error_code) == (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    rig.table.add(rig.partitions[0])
    assert run(usual, usual)[0] == 1


def test_answers_tell_the_log_start_at_the_time_of_the_append(run):
    """It may have moved since the request that was decoded, and may move again before the answer."""
    usual = Asked(version=5)
    run(usual, usual)
    run.rig.partitions[0].log.advance_log_start(1)
    count, answers = run(usual)
    assert (count, answers[0].log_start_offset) == (0, 1)


def test_a_partition_that_is_held_back_or_offline_refuses(run):
    """NOT_LEADER_OR_FOLLOWER and KAFKA_STORAGE_ERROR, though nothing is looked up again."""
    run(Asked())
    run.rig.partitions[0].partition.held_back = "the test says so"
    count, answers = run(Asked())
    assert (count, answers[0].error_code, answers[0].base_offset) == (0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    run.rig.partitions[0].partition.held_back = None
    run.rig.directory.fail(OSError(5, "gone"))
    assert run(Asked())[1][0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_batches_of_a_route_go_to_the_role_of_now(run):
    """A new leader epoch is met without decoding; without a role the long way says so."""
    run(Asked())
    partition = run.rig.partitions[0].partition
    begin_epoch(run.rig)
    count, answers = run(Asked())
    assert (count, answers[0].base_offset, partition.log.leader_epochs.epoch_for(1)) == (0, 1, 4)
    partition.resign()
    count, answers = run(Asked())
    assert (count, answers[0].error_code) == (1, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_batch_not_safe_in_time_is_answered_with_a_time_out(run, monkeypatch):
    """REQUEST_TIMED_OUT when the time-out of the request is over, not earlier."""
    run(Asked(acks=-1))
    rig = run.rig
    monkeypatch.setattr(rig.directory, "_begin_cycle", lambda: None)
    sent = rig.connection._transport.sent
    before = len(sent)
    rig.receive(Requests(rig.clock.wall_ms()).frame(Asked(acks=-1)))
    for seconds, answered in ((0.499, False), (0.002, True)):
        rig.loop.now += seconds
        rig.partitions[0].partition.tick(rig.loop.now)
        rig.loop.run()
        assert (len(sent) > before) is answered
    answer = decode(ProduceResponse, 9, memoryview(bytes(sent[before:])), 9).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_an_unexpected_error_is_answered_and_the_connection_goes_on(run, monkeypatch, now_ms):
    """UNKNOWN_SERVER_ERROR, as from the long way."""
    run(Asked())
    with monkeypatch.context() as patch:
        patch.setattr(run.rig.partitions[0].partition.leader, "append", lambda *_: 1 / 0)
        count, answers = run(Asked())
    assert (count, answers[0].error_code, answers[0].base_offset) == (0, ErrorCode.UNKNOWN_SERVER_ERROR, -1)
    assert run(Asked())[1][0].base_offset == 1


@pytest.mark.parametrize("tags", [{"header_tags": True}, {"body_tags": True}, {"behind": b"\0\0\0"}])
def test_a_request_in_an_unusual_form_is_not_remembered(run, tags):
    """Tagged fields, or bytes behind the last field: where its batch begins is not known without decoding."""
    odd = Asked(**tags)
    assert run(odd, odd)[0] == 2
    assert run(Asked(), Asked(), odd, Asked())[0] == 2
