"""Records beside what was acknowledged of them."""

from bench.faults.answers import Acknowledged, Found, acknowledged_faults, order_faults


def told(*values):
    one = Acknowledged()
    for offset, value in enumerate(values):
        one.note(0, offset, value)
    return one


def found(*values):
    return {0: [Found(offset, None, value) for offset, value in enumerate(values)]}


def test_records_that_are_there_are_no_fault():
    """More than was acknowledged may be there: an answer was lost."""
    assert list(acknowledged_faults(told(b"0:0", b"0:1"), found(b"0:0", b"0:1", b"0:2"))) == []
    assert list(order_faults(found(b"0:0", b"1:0", b"0:1"))) == []


def test_a_lost_and_another_record_are_faults():
    """Also where the log begins later, but for what was removed by right."""
    (lost,) = acknowledged_faults(told(b"0:0", b"0:1"), found(b"0:0"))
    assert "1 of 2 acknowledged records are not there; the first at offset 1" in lost
    (other,) = acknowledged_faults(told(b"0:0"), found(b"1:0"))
    assert "is b'1:0', not b'0:0'" in other
    assert list(acknowledged_faults(told(b"0:0"), {}, starts={0: 1})) == []


def test_a_record_that_was_acknowledged_without_an_offset_is_somewhere():
    """A broker that has a batch already may not know its offset any more."""
    one = told(b"0:0")
    one.note(0, None, b"0:1")
    assert list(acknowledged_faults(one, found(b"0:0", b"0:2", b"0:1"))) == []
    (lost,) = acknowledged_faults(one, found(b"0:0"))
    assert "1 acknowledged records are not there; they had no offset, the first was b'0:1'" in lost
    assert list(acknowledged_faults(one, {}, starts={0: 1})) == []


def test_two_records_at_one_offset_are_a_fault():
    """Two leaders of one epoch would acknowledge so."""
    one = told(b"0:0")
    one.note(0, 0, b"0:1")
    one.note(0, 0, b"0:2")
    (twice,) = acknowledged_faults(one, found(b"0:0"))
    assert "2 offsets were acknowledged twice; the first: offset 0 was acknowledged for b'0:0' and b'0:1'" in twice


def test_a_lost_record_stays_lost_when_its_offset_was_given_away():
    """All copies lost it, and the log went on from there."""
    one = told(b"0:0")
    one.note(0, 0, b"0:1")
    _, lost = acknowledged_faults(one, found(b"0:1"))
    assert "1 of 1 acknowledged records are not there" in lost


def test_a_record_that_comes_twice_or_too_early_is_a_fault():
    """Numbers of a writer rise within a partition."""
    assert len(list(order_faults(found(b"0:0", b"0:0")))) == 1
    assert len(list(order_faults(found(b"0:1", b"1:0", b"0:0")))) == 1


def test_the_longest_gap_lies_between_two_acknowledgements():
    """The time before the first one is the start of the clients."""
    one = told(b"0:0", b"0:1")
    assert 0 <= one.longest_gap_seconds < 1
    assert told(b"0:0").longest_gap_seconds == 0
