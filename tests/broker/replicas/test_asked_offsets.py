"""Offsets that are asked for again."""

from stratalog.broker.replicas.asked_offsets import AskedOffsets


def test_ever_fewer_of_many_reads_count():
    """Many readers of the same offsets pay for a few checks."""
    asked = AskedOffsets()
    assert [number for number in range(1, 1001) if asked.again(7)] == [2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert not asked.again(8)


def test_a_client_that_stays_at_an_offset_has_it_checked_however_many_have_read_it():
    """A batch that was sound when it was checked may be damaged now, and no other check would come."""
    for before in range(40):
        asked = AskedOffsets()
        for _ in range(before):
            asked.again(7)
        assert any(asked.again(7) for _ in range(before + 2))


def test_old_offsets_are_forgotten():
    """Memory is bounded, and what is checked may be checked again later."""
    asked = AskedOffsets()
    assert [asked.again(7), asked.again(7)] == [False, True]
    assert not any(asked.again(offset) for offset in range(100, 200))
    assert len(asked._reads) == 64
    assert [asked.again(7), asked.again(7)] == [False, True]
