"""Offsets that are asked for again."""

from stratalog.broker.replicas.asked_offsets import AskedOffsets


def test_the_second_time_counts_and_no_other():
    """Many readers of the same offsets pay for one check."""
    asked = AskedOffsets()
    assert [asked.again(7) for _ in range(5)] == [False, True, False, False, False]
    assert not asked.again(8)


def test_old_offsets_are_forgotten():
    """Memory is bounded, and what is checked may be checked again later."""
    asked = AskedOffsets()
    assert [asked.again(7), asked.again(7)] == [False, True]
    assert not any(asked.again(offset) for offset in range(100, 200))
    assert len(asked._checked) == 64
    assert [asked.again(7), asked.again(7)] == [False, True]
