"""Records that a controller wants committed."""

import asyncio
from types import SimpleNamespace

import pytest

from stratalog.broker.quorum.batches import parse_batches
from stratalog.broker.quorum.proposals import Proposal, Proposals
from stratalog.metadata.image.image import EMPTY_IMAGE
from stratalog.metadata.raft.actions import Accepted, Refused
from stratalog.wire.errors import ErrorCode, KafkaError
from stratalog.wire.records.metadata import NoOpRecord


@pytest.fixture
async def made():
    """Proposals over a log that takes or refuses, and an image that reaches offsets when the test says so."""
    placed, expected, reached, tasks = [], [], asyncio.Event(), []

    def place(batch):
        if made.refusal is not None:
            raise made.refusal
        placed.append(batch)

    async def wait(_offset):
        await reached.wait()

    publisher = SimpleNamespace(
        image=EMPTY_IMAGE, expect=lambda records, provenance: expected.append((records, provenance)), reached=wait
    )
    proposals = Proposals(
        SimpleNamespace(place=place), publisher, beside=lambda work: tasks.append(asyncio.ensure_future(work))
    )
    made = SimpleNamespace(
        proposals=proposals, placed=placed, expected=expected, reached=reached, tasks=tasks, refusal=None
    )
    yield made
    for task in tasks:
        task.cancel()


def proposal(count=2):
    return Proposal((NoOpRecord(),) * count, 3, asyncio.get_running_loop().create_future())


async def test_a_proposal_is_written_at_the_end_and_answered_once_it_is_applied(made):
    """The machine gets the same bytes, which it need not write again."""
    one = proposal()
    event = made.proposals.place(one, 10, 99)
    (batch,) = made.placed
    assert (event.token, event.epoch, event.count, event.data) == (one.done, 3, 2, batch.data)
    (parsed,) = parse_batches(bytes(batch.data))
    assert (parsed.base_offset, parsed.end_offset, parsed.epoch) == (10, 12, 3)
    assert made.expected[0][1] == (11, 3, 99)
    await asyncio.sleep(0)
    assert not one.done.done()
    made.reached.set()
    assert await one.done == 11


async def test_those_that_are_written_are_waited_for(made):
    """Not longer than was said, and not at all where there is none."""
    await made.proposals.wait_answered(60)
    one = proposal()
    made.proposals.place(one, 10, 99)
    await made.proposals.wait_answered(0.001)
    assert not one.done.done()
    waiting = asyncio.ensure_future(made.proposals.wait_answered(60))
    await asyncio.sleep(0)
    made.reached.set()
    await waiting
    assert one.done.result() == 11


async def test_a_full_disk_refuses_one_proposal_and_leaves_no_trace(made):
    """The machine does not hear of it; the next one has its place."""
    made.refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full")
    one = proposal()
    assert made.proposals.place(one, 10, 99) is None
    assert one.done.exception().code is ErrorCode.KAFKA_STORAGE_ERROR
    assert made.expected == []
    made.refusal = None
    assert made.proposals.place(proposal(), 10, 99) is not None


async def test_a_waiting_proposal_hears_once_that_the_leadership_has_gone(made):
    """Records that are applied later are not answered again."""
    one, other = proposal(), proposal()
    made.proposals.place(one, 10, 99)
    made.proposals.place(other, 12, 99)
    other.done.cancel()
    made.proposals.fail(KafkaError(ErrorCode.NOT_CONTROLLER, "gone"))
    assert one.done.exception().code is ErrorCode.NOT_CONTROLLER
    made.reached.set()
    await asyncio.gather(*made.tasks)
    made.proposals.fail(KafkaError(ErrorCode.NOT_CONTROLLER, "gone"))


async def test_an_upgrade_is_answered_once_it_is_applied(made):
    """Its records are the machine's; the end of the range counts."""
    done = made.proposals.upgrade()
    made.proposals.accepted(Accepted(done, 10, 12))
    await asyncio.sleep(0)
    assert (made.placed, done.done()) == ([], False)
    made.reached.set()
    assert await done == 11


async def test_an_upgrade_that_is_refused_says_why(made):
    """A leadership that has gone is NOT_CONTROLLER: another node is to be asked."""
    done, moved = made.proposals.upgrade(), made.proposals.upgrade()
    made.proposals.refused(Refused(done, ErrorCode.INVALID_UPDATE_VERSION, "voters [3] are silent"))
    made.proposals.refused(Refused(moved, ErrorCode.NOT_LEADER_OR_FOLLOWER, "not here"))
    with pytest.raises(KafkaError, match="silent") as refused:
        await done
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION
    with pytest.raises(KafkaError) as refused:
        await moved
    assert refused.value.code is ErrorCode.NOT_CONTROLLER
    with pytest.raises(RuntimeError, match="in the log already"):
        made.proposals.refused(Refused(proposal().done, ErrorCode.INVALID_UPDATE_VERSION))


@pytest.mark.parametrize("accepted", [False, True])
async def test_an_upgrade_under_way_fails_with_the_leadership(made, accepted):
    """Before it is in the log and after."""
    done = made.proposals.upgrade()
    if accepted:
        made.proposals.accepted(Accepted(done, 10, 12))
    made.proposals.fail(KafkaError(ErrorCode.NOT_CONTROLLER, "gone"))
    with pytest.raises(KafkaError, match="gone"):
        await done
