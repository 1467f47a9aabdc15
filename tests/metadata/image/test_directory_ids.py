"""Ids of log directories."""

import pytest

from stratalog.metadata.image.directory_ids import LOST, MIGRATING, UNASSIGNED, is_elsewhere, is_online, is_reserved


@pytest.mark.parametrize(
    ("directory", "reserved"),
    [
        (MIGRATING, True),
        (UNASSIGNED, True),
        (LOST, True),
        (bytes(15) + b"\x63", True),
        (bytes(15) + b"\x64", False),
        (bytes(8) + b"\xff" * 8, True),
        (b"\x01" + bytes(15), False),
    ],
)
def test_the_first_hundred_ids_are_reserved(directory, reserved):
    """The lower half counts as a signed number, as in Kafka."""
    assert is_reserved(directory) is reserved


@pytest.mark.parametrize(
    ("directory", "online", "is_there"),
    [
        (b"a" * 16, (b"a" * 16,), True),
        (b"a" * 16, (b"b" * 16,), False),
        (b"a" * 16, (), True),
        (UNASSIGNED, (b"b" * 16,), True),
        (MIGRATING, (b"b" * 16,), True),
        (LOST, (), False),
        (LOST, (b"b" * 16,), False),
    ],
)
def test_a_directory_is_online_if_its_broker_registered_it(directory, online, is_there):
    """A broker that registered none did so before directories had ids; a lost one is never online."""
    assert is_online(directory, online) is is_there


def test_a_directory_is_elsewhere_if_it_has_an_id_and_is_none_of_these():
    """An id that is reserved names none."""
    known = [b"a" * 16, LOST]
    assert [is_elsewhere(one, known) for one in (b"a" * 16, b"b" * 16, UNASSIGNED, LOST)] == [False, True, False, False]
