"""The reading of the same bytes by kio and kafka-python, in one plain form: nested dicts by field name."""

import dataclasses
import datetime as dt
import io
import uuid

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import kafka.protocol.sasl
import pytest
from kafka.protocol.api_message import ApiMessage
from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from stratalog.wire.primitives import Scalar
from stratalog.wire.schema import Struct, decode
from stratalog.wire.schema_fields import ListOf, Nested
from tests.wire.conftest import OWN_TAGS

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MILLISECOND = dt.timedelta(milliseconds=1)
NOT_IN_KAFKA_PYTHON = {
    "UnregisterBroker",
    "WriteTxnMarkers",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "Vote",
    "BeginQuorumEpoch",
    "EndQuorumEpoch",
    "AlterPartition",
    "Envelope",
    "FetchSnapshot",
    "BrokerRegistration",
    "BrokerHeartbeat",
    "AllocateProducerIds",
    "ControllerRegistration",
    "AssignReplicasToDirs",
    "AddRaftVoter",
    "RemoveRaftVoter",
    "UpdateRaftVoter",
}


def _slots(layout):
    return (*layout.slots, *(slot for slot in layout.tagged if slot.tag < OWN_TAGS))


def _sent(plain, slot):
    """None for a tagged struct that holds its defaults only: such a one is not sent."""
    if slot.tag is None or slot.layout is None or slot.is_list or plain is None:
        return plain
    return None if plain == _ours(slot.layout.cls(), slot.layout) else plain


def _ours(value, layout):
    return {slot.name: _sent(_ours_value(getattr(value, slot.name), slot), slot) for slot in _slots(layout)}


def _ours_value(value, slot):
    if slot.is_list:
        return None if value is None else [_ours_value(item, slot.element()) for item in value]
    if slot.layout is not None:
        return None if value is None else _ours(value, slot.layout)
    return bytes(value) if isinstance(value, memoryview) else value


def _kio(value, layout):
    theirs = {field.name: field for field in dataclasses.fields(value)}
    out = {}
    for slot in _slots(layout):
        name = slot.name if slot.name in theirs else _kio_name(slot.name)
        out[slot.name] = _sent(_kio_value(getattr(value, name), slot), slot)
    assert len(theirs) == len(out), f"{layout.cls.__name__}: {sorted(theirs)} there, {sorted(out)} here"
    return out


def _kio_name(name):
    """Its name for a field that it calls otherwise."""
    return "id_" if name == "id" else name.removesuffix("_ms").replace("kraft_", "k_raft_")


def _kio_value(value, slot):
    if slot.is_list:
        return None if value is None else [_kio_value(item, slot.element()) for item in value]
    if slot.layout is not None:
        return None if value is None else _kio(value, slot.layout)
    if slot.scalar.name == "uuid":
        return bytes(16) if value is None else value.bytes
    if isinstance(value, dt.timedelta):
        return value // MILLISECOND
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // MILLISECOND
    if value is None and slot.scalar.name == "int64":
        return -1
    return int(value) if slot.scalar.name.startswith("int") else value


def _bits(positions):
    """The signed number of a set of bits; None stands for "not asked for", the sign bit alone."""
    number = sum(1 << position for position in ({31} if positions is None else positions))
    return number - (1 << 32) if number >> 31 else number


def _kafka_python(value, layout):
    out = {}
    for slot in _slots(layout):
        operations = slot.name == "authorized_operations" or (
            slot.name.endswith("_authorized_operations") and not hasattr(value, slot.name)
        )
        theirs = getattr(value, "authorized_operations" if operations else slot.name)
        plain = _bits(theirs) if operations else _kafka_python_value(theirs, slot)
        out[slot.name] = _sent(plain, slot)
    return out


def _kafka_python_value(value, slot):
    if slot.is_list:
        return None if value is None else [_kafka_python_value(item, slot.element()) for item in value]
    if slot.layout is not None:
        return None if value is None else _kafka_python(value, slot.layout)
    if slot.scalar.name == "uuid":
        return bytes(16) if value is None else uuid.UUID(str(value)).bytes
    return value


class Oracles:
    """The other two codecs. Each ``read`` takes the bytes of a message and returns plain form and bytes again."""

    def plain(self, message: Struct, layout):
        return _ours(message, layout)

    def kio(self, cls, version, encoded, layout):
        kind = EntityType.request if cls.__name__.endswith("Request") else EntityType.response
        module = load_payload_module(cls.api_key, version, kind)
        entity = getattr(module, cls.__name__)
        value, size = entity_reader(entity)(encoded, 0)
        assert size == len(encoded)
        out = io.BytesIO()
        entity_writer(entity)(out, value)
        return _kio(value, layout), out.getvalue()

    def kafka_python(self, cls, version, encoded, layout):
        theirs = _kafka_python_class(cls)
        if theirs is None:
            return _ours(decode(cls, version, encoded), layout), encoded
        # ApiVersionsResponse overrides decode: it takes any body with an error for version 0.
        value = ApiMessage.decode.__func__(theirs, encoded, version=version)
        value._header = None
        return _kafka_python(value, layout), bytes(value.encode(version=version))

    def defaults(self, cls):
        """``(path, default, kafka-python's)`` of every field that may be left out."""
        theirs = _kafka_python_class(cls)
        return () if theirs is None else _defaults(cls, theirs._struct, cls.__name__)

    def smallest(self, layout):
        """A message with as little in it as its version allows."""
        return _smallest(layout)

    def dense(self, layout, size_bytes):
        """``(path, message)`` for every list: a message that is full of the smallest elements of that list."""
        return _dense(layout, size_bytes)


def _kafka_python_class(cls):
    """Its class of that name, None for messages that it does not have: then kio judges alone."""
    protocol = kafka.protocol
    packages = (protocol.admin, protocol.consumer, protocol.metadata, protocol.producer, protocol.sasl)
    found = [getattr(package, cls.__name__) for package in packages if hasattr(package, cls.__name__)]
    assert found or cls.__name__.removesuffix("Request").removesuffix("Response") in NOT_IN_KAFKA_PYTHON
    return found[0] if found else None


def _defaults(cls, theirs, path):
    for spec in cls.fields_declared:
        if spec.tag is not None and spec.tag >= OWN_TAGS:
            continue
        known = theirs.fields.get(spec.name) or theirs.fields["authorized_operations"]
        kind = spec.type.element if isinstance(spec.type, ListOf) else spec.type
        if isinstance(kind, Nested):
            yield from _defaults(kind.cls, known, f"{path}.{spec.name}")
        if spec.required:
            continue
        expected = known.default
        if isinstance(kind, Scalar) and kind.name == "uuid" and expected is None:
            expected = bytes(16)
        if known.name == "authorized_operations":
            expected = _bits(expected)
        if expected == "" and spec.default is None:
            expected = None  # Kafka's texts that may be null and declare no default are "", ours are null
        yield f"{path}.{spec.name}", spec.default, expected


def _smallest(layout):
    return layout.cls(**{slot.name: _smallest_value(slot) for slot in layout.slots}, **_left_out(layout))


def _left_out(layout):
    assert not any(spec.required for spec in layout.absent)
    return {slot.name: slot.default for slot in layout.tagged}


def _smallest_value(slot):
    if slot.is_list:
        return []
    if slot.nullable:
        return None
    if slot.layout is not None:
        return _smallest(slot.layout)
    return b"" if slot.scalar.name == "records" else slot.scalar.default


def _dense(layout, size_bytes):
    for slot in _slots(layout):
        if not slot.is_list:
            continue
        message = _smallest(layout)
        element = slot.element()
        setattr(message, slot.name, [_smallest_value(element) for _ in range(size_bytes // element.size_bytes_min)])
        yield slot.path, message
        if slot.layout is not None:
            for path, inner in _dense(slot.layout, size_bytes):
                message = _smallest(layout)
                setattr(message, slot.name, [inner])
                yield path, message


@pytest.fixture(scope="session")
def oracles():
    return Oracles()
