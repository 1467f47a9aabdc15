"""Tests of broker/lifecycle/registration_marks.py."""

from types import SimpleNamespace

import pytest

from stratalog.broker.lifecycle.registration_marks import RegistrationMarks
from stratalog.hot.directory import LogDirectory
from stratalog.hot.storage.filesystem import RealFilesystem
from stratalog.hot.storage.registration_mark import REGISTRATION, read_registration


class Broker:
    """Starts one process after the other over the same directories."""

    def __init__(self, path) -> None:
        self.paths = [str(path / name) for name in ("a", "b")]
        self.reported: list[OSError] = []

    def start(self) -> RegistrationMarks:
        """The directories as a new process finds them."""
        self.loaded = [LogDirectory.load(path, RealFilesystem()) for path in self.paths]
        found = [
            SimpleNamespace(
                files=one,
                path=one.path,
                writer=SimpleNamespace(offline=None, report=lambda error, _owner=None: self.reported.append(error)),
            )
            for one in self.loaded
        ]
        return RegistrationMarks(SimpleNamespace(all=found, online=found))

    def stop(self, broker_epoch) -> None:
        """Say farewell."""
        for one in self.loaded:
            one.close({}, broker_epoch=broker_epoch)


@pytest.fixture
def broker(tmp_path) -> Broker:
    """One with two directories."""
    return Broker(tmp_path)


def test_a_new_directory_has_lost_everything(broker):
    """It might have been another one before."""
    assert broker.start().previous_broker_epoch() == -1


def test_a_broker_that_syncs_before_it_acknowledges_loses_nothing_by_a_kill(broker):
    """Its next process names the epoch of the last registration."""
    marks = broker.start()
    marks.registered(7)
    marks.registered(9)
    assert broker.start().previous_broker_epoch() == 9


def test_a_broker_that_acknowledges_before_its_sync_may_have_lost_something(broker):
    """Also if it is registered again."""
    marks = broker.start()
    marks.registered(7)
    marks.may_lose()
    assert broker.start().previous_broker_epoch() == -1
    marks.registered(9)
    assert broker.start().previous_broker_epoch() == -1


def test_a_farewell_counts_whatever_was_acknowledged(broker):
    """Everything was synced then, and the next process begins without the doubt."""
    marks = broker.start()
    marks.registered(7)
    marks.may_lose()
    broker.stop(7)
    marks = broker.start()
    assert marks.previous_broker_epoch() == 7
    marks.registered(11)
    assert broker.start().previous_broker_epoch() == 11


def test_a_loss_is_remembered_over_every_end_before_the_next_registration(broker):
    """By the epoch of before the next process would have lost nothing, and its replicas stayed eligible (KIP-966)."""
    marks = broker.start()
    marks.registered(7)
    marks.data_lost()
    assert broker.start().previous_broker_epoch() == -1  # after a kill
    marks = broker.start()
    marks.registered(8)
    marks.data_lost()
    broker.stop(marks.epoch_at_stop())
    assert broker.start().previous_broker_epoch() == -1


def test_a_loss_that_the_controller_has_heard_of_leaves_the_marks(broker):
    """The next registration ends all memberships: what is copied since counts. A second loss is another one."""
    marks = broker.start()
    marks.registered(7)
    marks.data_lost()
    marks.data_lost()
    marks.registered(9)
    assert broker.start().previous_broker_epoch() == 9
    assert marks.epoch_at_stop() == 9
    marks.data_lost()
    assert broker.start().previous_broker_epoch() == -1


def test_a_process_that_is_never_registered_leaves_the_marks_as_they_were(broker):
    """No controller answered, or another process has the id: by the epoch of that one its own records would count as these."""
    marks = broker.start()
    assert marks.previous_broker_epoch() == marks.epoch_at_stop() == -1
    marks.registered(7)
    broker.stop(marks.epoch_at_stop())
    marks = broker.start()
    assert marks.previous_broker_epoch() == 7
    broker.stop(marks.epoch_at_stop())
    assert broker.start().previous_broker_epoch() == 7


def test_a_process_that_ends_before_it_opens_a_log_leaves_the_farewell_of_the_one_before(broker):
    """No controller was up in time. After a stop of all nodes no replica was in sync any more."""
    marks = broker.start()
    marks.registered(7)
    marks.may_lose()
    broker.stop(7)
    for _ in range(2):
        marks = broker.start()
        assert marks.previous_broker_epoch() == 7
    marks.may_lose()
    assert broker.start().previous_broker_epoch() == -1


def test_one_directory_that_is_new_counts_for_all(broker, tmp_path):
    """The broker has lost what lay there."""
    broker.start().registered(7)
    broker.paths[1] = str(tmp_path / "c")
    assert broker.start().previous_broker_epoch() == -1


def test_a_directory_that_failed_its_sync_has_lost_something(broker):
    """Its page cache was dropped."""
    broker.start().registered(7)
    broker.loaded[0].mark_offline("a test")
    assert broker.start().previous_broker_epoch() == -1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version":0}', b'{"brokerEpoch":null}'])
def test_a_mark_that_cannot_be_read_is_none(broker, tmp_path, content):
    """It says nothing about what was lost."""
    broker.start().registered(7)
    (tmp_path / "a" / REGISTRATION).write_bytes(content)
    assert read_registration(RealFilesystem(), str(tmp_path / "a")) == -1
    assert broker.start().previous_broker_epoch() == -1


def test_a_disk_that_refuses_the_mark_is_reported(broker, monkeypatch):
    """The other directories get theirs."""
    marks = broker.start()
    marks.registered(7)

    def refuse(_files, _path):
        raise OSError(5, "the disk does not answer")

    monkeypatch.setattr("stratalog.broker.lifecycle.registration_marks.remove_registration", refuse)
    marks.may_lose()
    assert [error.errno for error in broker.reported] == [5, 5]
