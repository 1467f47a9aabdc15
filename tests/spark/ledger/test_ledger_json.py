"""The bytes of ledgers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stratalog.spark.ledger.ledger import Head, OutputFile, Run, SourceObject, Span, SpanId
from stratalog.spark.ledger.ledger_json import head_from_bytes, head_to_bytes, run_from_bytes, run_to_bytes
from stratalog.wire.errors import Corrupt

NUMBERS = st.integers(0, 2**63 - 1)
WORDS = st.text(max_size=12)
FILES = st.builds(OutputFile, WORDS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
SPANS = st.builds(
    Span,
    st.builds(SpanId, NUMBERS, NUMBERS, NUMBERS),
    st.lists(st.builds(SourceObject, WORDS, NUMBERS), max_size=3).map(tuple),
    st.lists(FILES, max_size=3).map(tuple),
    NUMBERS,
)
RUNS = st.builds(
    Run,
    WORDS,
    NUMBERS,
    NUMBERS,
    st.lists(SPANS, max_size=3).map(tuple),
    st.lists(st.builds(SpanId, NUMBERS, NUMBERS, NUMBERS), max_size=2).map(tuple),
    st.lists(WORDS, max_size=2).map(tuple),
    st.lists(st.builds(SpanId, NUMBERS, NUMBERS, NUMBERS), max_size=2).map(tuple),
)
HEAD = Head("t", "id", 7, (("layout", "1"),), {0: ((1, 2), (5, 9)), 11: ()}, None, ("a", "b"), True, 1, 2, 3, {11: 9})


@given(RUNS)
def test_records_come_back(run: Run) -> None:
    """A run with random names in it is read back equal to the run that was written."""
    assert run_from_bytes(run_to_bytes(run), "x") == run


def test_heads_come_back() -> None:
    """With and without a checkpoint."""
    assert head_from_bytes(head_to_bytes(HEAD), "x") == HEAD
    other = replace(HEAD, checkpoint="c", publishing=False)
    assert head_from_bytes(head_to_bytes(other), "x") == other


def test_damage_is_found() -> None:
    """Any byte that differs, a part that is missing, another kind of document: the error says where."""
    data = head_to_bytes(HEAD)
    for at in range(0, len(data), 3):
        with pytest.raises(Corrupt, match="here: "):
            head_from_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :], "here")
    for broken in (data[:-5], b"", b"{}", run_to_bytes(Run("n", 1, 2, ()))):
        with pytest.raises(Corrupt, match="here: "):
            head_from_bytes(broken, "here")
    with pytest.raises(Corrupt, match="there: format 'stratalog-backfill'"):
        run_from_bytes(data, "there")
