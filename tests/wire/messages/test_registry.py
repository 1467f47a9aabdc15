"""Every message and version against the codecs of kio and kafka-python, and against hostile bytes."""

import tracemalloc

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from stratalog.wire.messages.registry import APIS
from stratalog.wire.schema import DecodeError, decode, decoder, encode_bytes, layout
from stratalog.wire.schema_fields import ANY_VERSION

MESSAGES = [message for pair in APIS.values() for message in pair]
REQUESTS = [pair.request for pair in APIS.values()]

# Kafka 4.3: first and last version, first flexible one.
KAFKA_4_3 = {
    0: ("Produce", 3, 13, 9),
    1: ("Fetch", 4, 18, 12),
    2: ("ListOffsets", 1, 11, 6),
    3: ("Metadata", 0, 13, 9),
    8: ("OffsetCommit", 2, 10, 8),
    9: ("OffsetFetch", 1, 10, 6),
    10: ("FindCoordinator", 0, 6, 3),
    11: ("JoinGroup", 0, 9, 6),
    12: ("Heartbeat", 0, 4, 4),
    13: ("LeaveGroup", 0, 5, 4),
    14: ("SyncGroup", 0, 5, 4),
    15: ("DescribeGroups", 0, 6, 5),
    16: ("ListGroups", 0, 5, 3),
    17: ("SaslHandshake", 0, 1, ANY_VERSION),
    18: ("ApiVersions", 0, 4, 3),
    19: ("CreateTopics", 2, 7, 5),
    20: ("DeleteTopics", 1, 6, 4),
    21: ("DeleteRecords", 0, 2, 2),
    22: ("InitProducerId", 0, 5, 2),
    23: ("OffsetForLeaderEpoch", 2, 4, 4),
    24: ("AddPartitionsToTxn", 0, 5, 3),
    25: ("AddOffsetsToTxn", 0, 4, 3),
    26: ("EndTxn", 0, 5, 3),
    27: ("WriteTxnMarkers", 1, 2, 1),
    28: ("TxnOffsetCommit", 0, 5, 3),
    29: ("DescribeAcls", 1, 3, 2),
    30: ("CreateAcls", 1, 3, 2),
    31: ("DeleteAcls", 1, 3, 2),
    32: ("DescribeConfigs", 1, 4, 4),
    33: ("AlterConfigs", 0, 2, 2),
    34: ("AlterReplicaLogDirs", 1, 2, 2),
    35: ("DescribeLogDirs", 1, 5, 2),
    36: ("SaslAuthenticate", 0, 2, 2),
    37: ("CreatePartitions", 0, 3, 2),
    42: ("DeleteGroups", 0, 2, 2),
    43: ("ElectLeaders", 0, 2, 2),
    44: ("IncrementalAlterConfigs", 0, 1, 1),
    45: ("AlterPartitionReassignments", 0, 1, 0),
    46: ("ListPartitionReassignments", 0, 0, 0),
    47: ("OffsetDelete", 0, 0, ANY_VERSION),
    48: ("DescribeClientQuotas", 0, 1, 1),
    49: ("AlterClientQuotas", 0, 1, 1),
    50: ("DescribeUserScramCredentials", 0, 0, 0),
    51: ("AlterUserScramCredentials", 0, 0, 0),
    52: ("Vote", 0, 2, 0),
    53: ("BeginQuorumEpoch", 0, 1, 1),
    54: ("EndQuorumEpoch", 0, 1, 1),
    55: ("DescribeQuorum", 0, 2, 0),
    56: ("AlterPartition", 2, 3, 0),
    57: ("UpdateFeatures", 0, 2, 0),
    58: ("Envelope", 0, 0, 0),
    59: ("FetchSnapshot", 0, 1, 0),
    60: ("DescribeCluster", 0, 2, 0),
    61: ("DescribeProducers", 0, 0, 0),
    62: ("BrokerRegistration", 0, 4, 0),
    63: ("BrokerHeartbeat", 0, 2, 0),
    64: ("UnregisterBroker", 0, 0, 0),
    65: ("DescribeTransactions", 0, 0, 0),
    66: ("ListTransactions", 0, 2, 0),
    67: ("AllocateProducerIds", 0, 0, 0),
    68: ("ConsumerGroupHeartbeat", 0, 1, 0),
    69: ("ConsumerGroupDescribe", 0, 1, 0),
    70: ("ControllerRegistration", 0, 0, 0),
    73: ("AssignReplicasToDirs", 0, 0, 0),
    74: ("ListConfigResources", 0, 1, 0),
    75: ("DescribeTopicPartitions", 0, 0, 0),
    80: ("AddRaftVoter", 0, 1, 0),
    81: ("RemoveRaftVoter", 0, 0, 0),
    82: ("UpdateRaftVoter", 0, 0, 0),
}

each_message = pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
each_request = pytest.mark.parametrize("cls", REQUESTS, ids=lambda cls: cls.__name__)


def versions(cls):
    return range(cls.versions[0], cls.versions[1] + 1)


def sweep(examples):
    """The same random messages in every run."""
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


def outcome(cls, version, data):
    """The message in ``data``, or None if it is refused; any other exception fails the test."""
    try:
        return decode(cls, version, data)
    except DecodeError:
        return None


def peak_bytes(work, wanted_bytes):
    """The memory that `work` takes, measured at most four times: what other threads of the process take only adds."""
    peaks = []
    while len(peaks) < 4 and not (peaks and min(peaks) < wanted_bytes):
        tracemalloc.start()
        try:
            work()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(peaks)


@pytest.mark.parametrize("api_key", APIS)
def test_registry_ranges(api_key):
    """Keys, version ranges and first flexible versions are those of Kafka 4.3."""
    name, first, last, flexible = KAFKA_4_3[api_key]
    for suffix, cls in zip(("Request", "Response"), APIS[api_key], strict=True):
        assert cls.__name__ == name + suffix
        assert (cls.api_key, cls.versions, cls.flexible_since) == (api_key, (first, last), flexible)


@each_message
def test_message_oracles(cls, messages, oracles, examples):
    """kio and kafka-python read the same values from our bytes and write the same bytes again."""

    @sweep(examples)
    @given(st.data())
    def check(data):
        for version in versions(cls):
            message = data.draw(messages(cls, version, tame=True))
            encoded = encode_bytes(message, version)
            shape = layout(cls, version)
            expected = (oracles.plain(message, shape), encoded)
            assert oracles.kafka_python(cls, version, encoded, shape) == expected
            assert oracles.kio(cls, version, encoded, shape) == expected

    check()


@each_message
def test_message_defaults(cls, oracles):
    """A field that a version lacks reads as the default that kafka-python has for it."""
    for path, ours, theirs in oracles.defaults(cls):
        assert ours == theirs, path


@each_message
def test_message_round_trip(cls, messages, examples, sampled):
    """Decoding returns the message that was encoded, from any position, and says where it ended."""

    @sweep(examples)
    @given(st.data(), st.binary(max_size=3))
    def check(data, before):
        for version in sampled(cls):
            message = data.draw(messages(cls, version))
            encoded = encode_bytes(message, version)
            again, position = decoder(cls, version)(before + encoded + b"after", len(before))
            assert position == len(before) + len(encoded)
            assert again == message or encode_bytes(again, version) == encoded

    check()


@each_message
def test_message_truncation(cls, messages, examples, sampled):
    """A message cut off anywhere is refused with a DecodeError."""

    @sweep(max(2, examples // 3))
    @given(st.data())
    def check(data):
        for version in sampled(cls):
            encoded = encode_bytes(data.draw(messages(cls, version)), version)
            for length in range(len(encoded)):
                with pytest.raises(DecodeError):
                    decode(cls, version, encoded[:length])

    check()


@each_message
def test_message_mutation(cls, messages, examples, sampled):
    """Damaged bytes are refused with a DecodeError or are another message, which encodes again."""

    @sweep(examples)
    @given(st.data(), st.randoms(use_true_random=False))
    def check(data, random):
        for version in sampled(cls):
            encoded = bytearray(encode_bytes(data.draw(messages(cls, version)), version))
            for _ in range(8):
                if encoded:
                    encoded[random.randrange(len(encoded))] = random.choice((0, 1, 2, 127, 128, 255))
                survivor = outcome(cls, version, encoded)
                if survivor is not None:
                    again = encode_bytes(survivor, version)
                    assert encode_bytes(decode(cls, version, again), version) == again

    check()


@each_message
def test_message_noise(cls):
    """Random bytes are refused with a DecodeError or are some message."""

    @sweep(30)
    @given(st.binary(max_size=60))
    def check(noise):
        for version in versions(cls):
            outcome(cls, version, noise)

    check()


@each_message
def test_message_unknown_tags(cls, messages):
    """Tagged fields of a later version are passed over."""

    @sweep(2)
    @given(st.data())
    def check(data):
        for version in versions(cls):
            message = data.draw(messages(cls, version))
            for slot in layout(cls, version).tagged:
                setattr(message, slot.name, slot.default)
            encoded = encode_bytes(message, version)
            if version >= cls.flexible_since:
                assert encoded.endswith(b"\0")
                later = encoded[:-1] + bytes([2, 100, 3]) + b"new" + bytes([0xFF, 0x7F, 0])
                again, position = decoder(cls, version)(later)
                assert position == len(later)
                assert encode_bytes(again, version) == encoded

    check()


@each_request
def test_request_memory(cls, oracles):
    """The densest request takes less than 64 bytes of memory for each of its own."""
    first, last = cls.versions
    for version in {first, min(max(cls.flexible_since, first), last), last}:
        shape = layout(cls, version)
        for path, dense in oracles.dense(shape, 1 << 12):
            encoded = encode_bytes(dense, version)
            decode_dense = decoder(cls, version)
            decode_dense(encode_bytes(oracles.smallest(shape), version))
            peak = peak_bytes(
                lambda decode_dense=decode_dense, encoded=encoded: decode_dense(encoded), 64 * len(encoded)
            )
            assert peak < 64 * len(encoded), f"{cls.__name__} v{version} {path}: {peak} bytes for {len(encoded)}"


@each_request
def test_request_count_bombs(cls, messages):
    """A length or count far beyond the request is refused before anything of that size is allocated."""
    bombs = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x7f\xff", b"\xff\xff\x03")

    @sweep(2)
    @given(st.data())
    def check(data):
        for version in versions(cls):
            encoded = encode_bytes(data.draw(messages(cls, version)), version)

            def bombard(encoded=encoded, version=version):
                for position in range(min(len(encoded), 80)):
                    for bomb in bombs:
                        outcome(cls, version, encoded[:position] + bomb + encoded[position + len(bomb) :])

            assert peak_bytes(bombard, 200_000) < 200_000

    check()
