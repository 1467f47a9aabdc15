"""Random messages for the tests of the codec, drawn from the declarations themselves."""

import os
from struct import calcsize

import pytest
from hypothesis import strategies as st

from stratalog.wire.schema import layout

OWN_TAGS = 21_000
"""The first tag of fields that are this project's own: Kafka's have no such number, and its codecs have no such field."""
MODERN_TIME_MS = st.integers(-1, 4_102_444_800_000)
CLOCKS = {
    "log_append_time_ms",
    "timestamp",
    "last_contained_log_timestamp",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "session_lifetime_ms",
    "retention_time_ms",
}


def _number(code):
    if code == "?":
        return st.booleans()
    if code == "d":
        return st.floats(allow_nan=False)
    bits = 8 * calcsize(">" + code)
    return st.integers(0, 2**bits - 1) if code.isupper() else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _scalar(slot, tame):
    name = slot.scalar.name
    if tame and slot.name.endswith("error_code"):
        return st.integers(-1, 119)
    if tame and slot.name in CLOCKS:
        return MODERN_TIME_MS
    if tame and slot.name == "transaction_start_time_ms":  # never null for kio, though Kafka answers -1
        return st.integers(0, 4_102_444_800_000)
    if name == "string":
        return st.text(max_size=6) | st.integers(125, 130).map("é".__mul__)
    if name in {"bytes", "records"}:
        return st.binary(max_size=8) | st.integers(125, 130).map(bytes)
    if name == "uuid":
        return st.binary(min_size=16, max_size=16)
    return _number(slot.scalar.code)


def _value(slot, tame):
    if tame and slot.tag is not None and slot.tag >= OWN_TAGS:
        return st.just(slot.default)
    if slot.is_list:
        inside = st.lists(_value(slot.element(), tame), max_size=2 if slot.layout is not None else 3)
    elif slot.layout is not None:
        inside = _struct(slot.layout, tame)
    else:
        inside = _scalar(slot, tame)
    absent = slot.nullable or (slot.tag is not None and slot.layout is not None and not slot.is_list)
    return st.none() | inside if absent else inside


def _struct(struct_layout, tame):
    fields = {slot.name: _value(slot, tame) for slot in (*struct_layout.slots, *struct_layout.tagged)}
    absent = [spec.name for spec in struct_layout.absent if spec.required]
    assert not absent, f"{struct_layout.cls.__name__} requires fields that this version lacks: {absent}"
    return st.builds(struct_layout.cls, **fields)


@pytest.fixture(scope="session")
def messages():
    """``messages(cls, version)``: a strategy for messages; ``tame`` keeps to error codes and times that exist."""
    cache = {}

    def strategy(cls, version, *, tame=False):
        key = (cls, version, tame)
        if key not in cache:
            cache[key] = _struct(layout(cls, version), tame)
        return cache[key]

    return strategy


EXAMPLES_BY_DEFAULT = 2
"""Random messages a version, if the sweep is not asked for."""


@pytest.fixture(scope="session", params=["some", pytest.param("many", marks=pytest.mark.slow)])
def examples(request):
    """How many random messages a sweep takes a version: few by default, ``STRATALOG_SWEEP`` of the slow ones."""
    return EXAMPLES_BY_DEFAULT if request.param == "some" else int(os.environ.get("STRATALOG_SWEEP", "12"))


@pytest.fixture(scope="session")
def sampled(examples):
    """A message's versions to try: with few examples the first, the first flexible and the last one, else all."""

    def of(cls):
        first, last = cls.versions
        few = sorted({first, min(max(cls.flexible_since, first), last), last})
        return few if examples == EXAMPLES_BY_DEFAULT else range(first, last + 1)

    return of
