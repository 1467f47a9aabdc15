"""Control records, against kio's declarations where it has them."""

import io
from importlib import import_module

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from stratalog.wire.errors import Invalid
from stratalog.wire.records.control import (
    ControlType,
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    Voter,
    VotersRecord,
    decode_key,
    decode_record,
    encode_key,
    encode_record,
)
from stratalog.wire.schema import DecodeError

KINDS = [
    (ControlType.LEADER_CHANGE, LeaderChangeMessage, "leader_change_message"),
    (ControlType.SNAPSHOT_HEADER, SnapshotHeaderRecord, "snapshot_header_record"),
    (ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord, "snapshot_footer_record"),
    (ControlType.KRAFT_VERSION, KRaftVersionRecord, "k_raft_version_record"),
    (ControlType.KRAFT_VOTERS, VotersRecord, "voters_record"),
]


@pytest.mark.parametrize(("kind", "cls", "name"), KINDS, ids=lambda value: getattr(value, "__name__", None))
def test_record_oracle(kind, cls, name, messages):
    """kio reads every version and writes the same bytes, the version in front included."""

    @settings(max_examples=15, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data):
        for version in range(cls.versions[1] + 1):
            record = data.draw(messages(cls, version, tame=True))
            value = encode_record(record, version)
            entity = getattr(import_module(f"kio.schema.{name}.v{version}.data"), cls.__name__)
            theirs, size = entity_reader(entity)(value, 0)
            out = io.BytesIO()
            entity_writer(entity)(out, theirs)
            assert (theirs.version, size, out.getvalue()) == (version, len(value), value)
            assert decode_record(kind, value) == record

    check()


def test_key():
    """The key is version 0 and the type; a later key version is still read."""
    assert encode_key(ControlType.COMMIT).hex() == "00000001"
    assert decode_key(bytes.fromhex("0000 0006")) == ControlType.KRAFT_VOTERS
    assert decode_key(bytes.fromhex("0001 0063 ff")) == 99
    for key in ("", "000000", "ffff0001"):
        with pytest.raises(DecodeError, match="key of a control record"):
            decode_key(bytes.fromhex(key))


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_transaction_marker(kind):
    """An end marker is version 0 and the coordinator's epoch; later versions are read as 0."""
    marker = EndTxnMarker(coordinator_epoch=7)
    assert encode_record(marker).hex() == "0000" + "00000007"
    assert decode_record(kind, bytes.fromhex("0000 00000007")) == marker
    assert decode_record(kind, bytes.fromhex("0005 00000007 99")) == marker


def test_leader_change():
    """Version 1 adds the voters' directories."""
    change = LeaderChangeMessage(
        leader_id=1, voters=[Voter(voter_id=1, voter_directory_id=b"\2" * 16)], granting_voters=[]
    )
    assert encode_record(change, 0).hex() == "0000" + "00000001" + "02" + "00000001" + "00" + "01" + "00"
    assert encode_record(change, 1).hex() == "0001" + "00000001" + "02" + "00000001" + "02" * 16 + "00" + "01" + "00"
    assert decode_record(ControlType.LEADER_CHANGE, encode_record(change, 1)) == change
    with pytest.raises(Invalid):
        encode_record(change, 2)


@pytest.mark.parametrize(
    ("kind", "value", "match"),
    [
        (7, "0000", "type 7"),
        (-1, "0000", "type -1"),
        (0, "00", "cut off after 1 bytes"),
        (1, "0000 0000", "EndTxnMarker v0: the message is cut off"),
        (1, "ffff 00000007", "has version -1"),
    ],
)
def test_record_refused(kind, value, match):
    """A type that is not known and a value that is cut off are refused."""
    with pytest.raises(DecodeError, match=match):
        decode_record(kind, bytes.fromhex(value))
