import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from stratalog.broker.api import fetch
from stratalog.broker.requests.dispatch import PENDING
from stratalog.broker.shortcuts.fetch_route import LONG_WAY, FetchRoute, RequestForm, at_offset, partition_of
from stratalog.broker.shortcuts.table import with_shortcuts
from stratalog.wire.errors import ErrorCode


def load_rig():
    """The module beside this one; tests are no package."""
    spec = importlib.util.spec_from_file_location("fetch_rig", Path(__file__).with_name("fetch_rig.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RIG = load_rig()
Asked = RIG.Asked


@pytest.fixture
def rig(broker_rig, tmp_path):
    rig = RIG.note_decoded(broker_rig(tmp_path, *with_shortcuts([fetch.API])))
    yield rig
    rig.close()


@pytest.fixture
def context_of(rig, monkeypatch):
    """``context_of(asked)``: the context of such a request, and its frame."""
    seen = []
    rows = rig.dispatcher._rows

    def context_of(asked):
        row = rows[(1 << 16) | asked.version]
        row.handle = lambda context, _: seen.append(context) or PENDING
        frame = rig.requests.frame(asked)
        rig.dispatcher.dispatch(rig.connection, memoryview(frame)[4:])
        return seen[-1], memoryview(frame)[4:]

    return context_of


@pytest.mark.parametrize("version", range(7, 19))
def test_a_form_finds_what_changes(context_of, rig, version):
    """Correlation id, epoch and offset of requests of one kind; nothing in those of others."""
    asked = Asked(version=version, offset=3)
    context, frame = context_of(asked)
    form = RequestForm.of(context, frame)
    later = memoryview(rig.requests.frame(replace(asked, offset=1 << 40)))[4:]
    assert form.match(later) == (rig.requests._correlation_id, -1, 1 << 40)
    for change in ({"max_bytes": 5}, {"partition": 1}, {"client_id": "tneilc"}, {"client_id": "longer one"}):
        assert form.match(memoryview(rig.requests.frame(replace(asked, **change)))[4:]) is None


@pytest.mark.parametrize("odd", [{"behind": b"\0"}, {"header_tags": True}])
def test_a_request_in_an_unusual_form_has_none(context_of, odd):
    """Where its offset stands is not known without decoding."""
    assert RequestForm.of(*context_of(Asked(**odd))) is None


@pytest.mark.parametrize(
    "other",
    [{"partition_count": 2}, {"version": 6}, {"wait_ms": 0}, {"min_bytes": 0}, {"last_epoch": 3}, {"topic": "unknown"}, {"partition": 2}],
)  # fmt: skip
def test_requests_that_are_not_remembered(context_of, rig, other):
    """Requests of more partitions than one, older ones, those that do not
    wait, and those whose partition is not here.
    """
    assert partition_of(context_of(Asked())[0]) is rig.partitions[0]
    assert partition_of(context_of(Asked(**other))[0]) is None


def test_another_offset_leaves_the_request_as_it_was(context_of):
    """All else of the copy is the same."""
    request = context_of(Asked(offset=3))[0].request
    other = at_offset(request, 9)
    assert (request.topics[0].partitions[0].fetch_offset, other.topics[0].partitions[0].fetch_offset) == (3, 9)
    assert at_offset(other, 3) == request


def test_a_route_finds_its_records(context_of, rig):
    """Records, or nothing yet, or what only the long way can tell."""
    route = FetchRoute(context_of(Asked(min_bytes=150, partition_max_bytes=1000))[0], rig.partitions[0])
    assert route.look(0, final=False) is None
    assert route.look(0, final=True).next_offset == 0
    RIG.append(rig)
    assert route.look(0, final=False) is None  # too little
    assert route.look(0, final=True).next_offset == 1
    RIG.append(rig)
    assert route.look(0, final=False).next_offset == route.limit == 2
    for offset in (-1, 3):
        with pytest.raises(LONG_WAY):
            route.look(offset, final=True)
    rig.table.remove(rig.partitions[0])
    with pytest.raises(LONG_WAY):
        route.look(0, final=False)


@pytest.mark.parametrize(("version", "named"), [(15, False), (16, True), (18, True)])
def test_a_wait_that_ends_with_the_leadership_tells_who_leads(rig, version, named):
    """From version 16 on, with the leader's endpoint (KIP-951); so does an older epoch that a request brings."""
    RIG.append(rig)
    asked = Asked(version=version)
    RIG.ask(rig, replace(asked, offset=0))
    before = len(rig.connection._transport.sent)
    assert RIG.ask(rig, asked) is None
    RIG.EVENTS["resign"](rig)
    rig.loop.run()
    moved = RIG.whole_answer(rig, asked, before)
    RIG.EVENTS["epoch"](rig)
    before = len(rig.connection._transport.sent)
    RIG.ask(rig, replace(asked, leader_epoch=2))
    fenced = RIG.whole_answer(rig, asked, before)
    for answer, code in ((moved, ErrorCode.NOT_LEADER_OR_FOLLOWER), (fenced, ErrorCode.FENCED_LEADER_EPOCH)):
        (partition,) = answer.responses[0].partitions
        leader = partition.current_leader
        assert partition.error_code == code
        assert (leader and (leader.leader_id, leader.leader_epoch)) == ((1, 3) if named else None)
        endpoints = [(at.node_id, at.host, at.port, at.rack) for at in answer.node_endpoints]
        assert endpoints == ([(1, "here", 9092, "r1")] if named else [])
