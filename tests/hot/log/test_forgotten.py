"""The forgotten offset of a log: it is in force, and written down, in an order that no crash turns round."""

import pytest

from stratalog.hot.log.forgotten import ForgottenOffset


class Directory:
    """A directory that has a row, and writes it when a test says so, or cannot."""

    def __init__(self, row):
        self.row = self.written = row
        self.fails = False

    def keep(self, offset):
        self.row = offset
        return self.write

    def write(self):
        if self.fails:
            raise OSError("no disk")
        self.written = self.row


@pytest.fixture
def directory():
    """It says 10."""
    return Directory(10)


@pytest.fixture
def forgotten(directory):
    """It is kept by the directory."""
    made = ForgottenOffset()
    made.kept_by(directory.row, directory.keep, lambda: directory.written == directory.row)
    return made


def test_a_cleaning_is_noted_before_it_is_in_force(forgotten, directory):
    """A follower that hears of it before the tombstone has gone could copy what that had ended, and not the tombstone."""
    forgotten.noting(20)()
    assert (forgotten.below, directory.written) == (10, 20)
    forgotten.dropped(20)
    assert forgotten.below == 20


def test_a_later_cleaning_of_earlier_offsets_lowers_nothing(forgotten, directory):
    """The horizon of an older tombstone may end later."""
    forgotten.noting(5)()
    forgotten.dropped(5)
    assert (forgotten.below, directory.written) == (10, 10)


def test_an_offset_that_is_taken_over_is_kept_once_it_is_written(forgotten, directory):
    """Its copy goes on meanwhile, and is counted when it is there."""
    assert forgotten.is_kept
    forgotten.take_over(30)
    assert (forgotten.below, forgotten.is_kept) == (30, False)
    directory.write()
    assert forgotten.is_kept


def test_a_lower_offset_is_on_the_disk_first(forgotten, directory):
    """Else a crash leaves records behind an offset that says too much of them."""
    directory.fails = True
    with pytest.raises(OSError, match="no disk"):
        forgotten.lower(4)
    assert forgotten.below == 10, "the next try writes it"
    directory.fails = False
    forgotten.lower(4)
    assert (forgotten.below, directory.written) == (4, 4)


@pytest.mark.parametrize(("end", "below"), [(4, 4), (10, 10), (30, 10)])
def test_a_leader_has_forgotten_nothing_behind_its_end(forgotten, end, below):
    """A copy that was not complete may be elected uncleanly: what it appends is new."""
    forgotten.begin_to_lead(end)
    assert forgotten.below == below


def test_a_log_without_a_directory_keeps_its_own():
    """As in tests, and while it is being opened."""
    made = ForgottenOffset()
    made.take_over(3)
    assert (made.below, made.is_kept) == (3, True)
