from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.tier.manifests.entry import LeaderEpoch
from stratalog.tier.objects.segment_blobs import (
    ABORTED_BYTES,
    AbortedTransaction,
    aborted_from_bytes,
    aborted_to_bytes,
    epochs_from_bytes,
    epochs_to_bytes,
)
from stratalog.wire.errors import Corrupt

longs = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.builds(AbortedTransaction, longs, longs, longs, longs), max_size=10))
def test_aborted_transactions_survive_their_bytes(aborted):
    """34 bytes each, as in Kafka's transaction index."""
    data = aborted_to_bytes(aborted)
    assert len(data) == ABORTED_BYTES * len(aborted) == 34 * len(aborted)
    assert aborted_from_bytes(data) == tuple(aborted)


@given(st.lists(st.builds(LeaderEpoch, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)), max_size=10))
def test_leader_epochs_survive_their_text(epochs):
    """The text is that of Kafka's leader-epoch-checkpoint."""
    data = epochs_to_bytes(epochs)
    assert data.startswith(b"0\n%d\n" % len(epochs))
    assert epochs_from_bytes(data) == tuple(epochs)


@pytest.mark.parametrize(
    "data", [b"", b"0\n", b"1\n0\n", b"0\n2\n1 0\n", b"0\n1\n1\n", b"0\n1\nx y\n", b"0\n1\n\xff 1\n"]
)
def test_a_damaged_epoch_checkpoint_is_corrupt(data):
    """A count that does not fit, another version and text that is no number are refused."""
    with pytest.raises(Corrupt):
        epochs_from_bytes(data)


@pytest.mark.parametrize("data", [bytes(33), b"\x00\x01" + bytes(32)])
def test_damaged_aborted_transactions_are_corrupt(data):
    """A torn row and a newer version are refused."""
    with pytest.raises(Corrupt):
        aborted_from_bytes(data)
