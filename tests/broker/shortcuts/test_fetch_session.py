"""Busy readers with a session; that all else is as without a shortcut is tested with those who keep none."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from stratalog.broker.api import fetch
from stratalog.broker.shortcuts import fetch_session as fetch_session_shortcut
from stratalog.broker.shortcuts.fetch_session import FetchSessionShortcut
from stratalog.broker.shortcuts.table import with_shortcuts
from stratalog.wire.batch import iter_headers
from stratalog.wire.errors import ErrorCode


def load_rig():
    """The module beside this one; tests are no package."""
    spec = importlib.util.spec_from_file_location("fetch_rig", Path(__file__).with_name("fetch_rig.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RIG = load_rig()
Asked, append, ask, whole_answer = RIG.Asked, RIG.append, RIG.ask, RIG.whole_answer


@pytest.fixture
def rig(broker_rig, tmp_path):
    """A rig that notes which requests are decoded, with six batches and a session that has begun."""
    rig = RIG.note_decoded(broker_rig(tmp_path, *with_shortcuts([fetch.API])))
    for number in range(6):
        append(rig, b"%d" % number)
    ask(rig, Asked(session="begin", offset=0, partition_max_bytes=1))
    yield rig
    rig.close()


def session(rig):
    """The session that was begun."""
    (one,) = rig.broker.fetch_sessions.cache._by_use.values()
    return one


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_a_busy_reader_is_decoded_once(rig, isolation_level):
    """Each request brings the next epoch and offset, and gets the next batch; the session remembers where its reader is."""
    for offset in range(1, 6):
        asked = Asked(session="next", offset=offset, partition_max_bytes=1, isolation_level=isolation_level)
        (partition,) = ask(rig, asked)
        assert [header.base_offset for _, header in iter_headers(partition.records)] == [offset]
        assert (partition.high_watermark, partition.log_start_offset) == (6, 0)
    assert len(rig.decoded) == 2  # with the one that began the session
    one = session(rig)
    assert (one.epoch, one.only_partition.wanted.fetch_offset, one.only_partition.told_high_watermark) == (6, 5, 6)


def test_a_reader_without_news_waits_the_long_way_and_the_session_is_kept(rig):
    """The answer to the next append comes by the session, and the request behind it is not decoded."""
    usual = Asked(session="next", partition_max_bytes=1)
    ask(rig, replace(usual, offset=5))
    before = len(rig.connection._transport.sent)
    assert ask(rig, replace(usual, offset=6)) is None
    append(rig)
    append(rig)
    assert whole_answer(rig, usual, before).session_id == session(rig).id
    decoded = len(rig.decoded)
    assert ask(rig, replace(usual, offset=7))[0].records
    assert len(rig.decoded) == decoded


def test_an_ended_session_or_another_epoch_is_an_error(rig):
    """As on the long way."""
    usual = Asked(session="next", offset=1)
    ask(rig, usual)
    assert isinstance(rig.connection.shortcut, FetchSessionShortcut)
    before = len(rig.connection._transport.sent)
    rig.receive(rig.requests.frame(replace(usual, session="old")))
    assert whole_answer(rig, usual, before).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    frame = rig.requests.frame(usual)
    rig.broker.fetch_sessions.close(session(rig).id)
    before = len(rig.connection._transport.sent)
    rig.receive(frame)
    assert whole_answer(rig, usual, before).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_of_two_partitions_is_not_remembered(rig):
    """A remembered session is forgotten when a second partition has come."""
    usual = Asked(session="next", offset=0)
    ask(rig, usual)
    ask(rig, replace(usual, partition_count=2))
    decoded = len(rig.decoded)
    for _ in range(fetch_session_shortcut.STRANGERS_MAX + 1):
        ask(rig, usual)
    assert len(rig.decoded) == decoded + fetch_session_shortcut.STRANGERS_MAX + 1


def test_other_requests_take_over_when_they_have_become_usual(rig):
    """Those of a client without a session, say."""
    ask(rig, Asked(session="next", offset=0))
    other = Asked(offset=1)
    for _ in range(fetch_session_shortcut.STRANGERS_MAX):
        ask(rig, other)
    decoded = len(rig.decoded)
    assert ask(rig, other)[0].records
    assert len(rig.decoded) == decoded
