"""Ten thousand groups with members and offsets: listed, described, loaded after a kill, deleted; idle they cost nothing."""

import os
import signal
import time
from pathlib import Path

import pytest

from stratalog.client.admin import create_topic
from stratalog.client.client import Client
from stratalog.wire.errors import ErrorCode
from stratalog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from stratalog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from stratalog.wire.messages.delete_groups import DeleteGroupsRequest
from stratalog.wire.messages.describe_groups import DescribeGroupsRequest
from stratalog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from stratalog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

HOUR_MS = 3_600_000
SETTINGS = {
    "group_initial_rebalance_delay_ms": 0,
    "group_max_session_timeout_ms": HOUR_MS,
    "group_consumer_max_session_timeout_ms": HOUR_MS,
    "group_consumer_session_timeout_ms": HOUR_MS,
}
AT_ONCE = 200


def pipelined(wire, requests, version):
    """The answers to many requests, so many under way at a time."""
    answers = []
    for at in range(0, len(requests), AT_ONCE):
        part = requests[at : at + AT_ONCE]
        for request in part:
            wire.send(request, version)
        answers += [wire.answer() for _ in part]
    return answers


def batched(names):
    return [names[at : at + AT_ONCE] for at in range(0, len(names), AT_ONCE)]


def commit_request(group, member_id, epoch):
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="t", partitions=[row])
    return OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=epoch, member_id=member_id, topics=[topic])


class Crowd:
    """One member in each of many groups: half of them classic, half of the consumer protocol."""

    def __init__(self, wire, count, member_of):
        self.classic = [f"classic-{number}" for number in range(count // 2)]
        self.new = [f"new-{number}" for number in range(count // 2)]
        joins = [wire.join_request(name, session_ms=HOUR_MS) for name in self.classic]
        joined = pipelined(wire, joins, 3)
        assert {one.error_code for one in joined} == {0}
        self.members = [
            member_of(name, one.member_id, one.generation_id) for name, one in zip(self.classic, joined, strict=True)
        ]
        syncs = [wire.sync_request(one, {one.member_id: b"all of it"}) for one in self.members]
        assert {one.error_code for one in pipelined(wire, syncs, 3)} == {0}
        beats = [self._beat(name, 0) for name in self.new]
        self.epochs = [one.member_epoch for one in pipelined(wire, beats, 1)]
        commits = [commit_request(one.group, one.member_id, one.generation) for one in self.members]
        commits += [commit_request(name, "m", epoch) for name, epoch in zip(self.new, self.epochs, strict=True)]
        codes = {one.topics[0].partitions[0].error_code for one in pipelined(wire, commits, 9)}
        assert codes == {0}

    def _beat(self, name, epoch):
        topics = ["t"] if epoch == 0 else None
        return ConsumerGroupHeartbeatRequest(
            group_id=name,
            member_id="m",
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if epoch == 0 else -1,
            subscribed_topic_names=topics,
            topic_partitions=[] if epoch == 0 else None,
        )

    def told(self, wire):
        """The descriptions of all of them."""
        described = pipelined(wire, [DescribeGroupsRequest(groups=part) for part in batched(self.classic)], 6)
        described += pipelined(wire, [ConsumerGroupDescribeRequest(group_ids=part) for part in batched(self.new)], 1)
        offsets = {name: wire.offsets(name) for name in (*self.classic[::50], *self.new[::50])}
        return wire.groups(), described, offsets

    def leave(self, wire):
        """Every member goes."""
        leaving = [
            LeaveGroupRequest(group_id=one.group, members=[MemberIdentity(member_id=one.member_id)])
            for one in self.members
        ]
        assert {one.error_code for one in pipelined(wire, leaving, 5)} == {0}
        assert {one.error_code for one in pipelined(wire, [self._beat(name, -1) for name in self.new], 1)} == {0}

    def delete(self, wire):
        """The codes of deleting them all."""
        requests = [DeleteGroupsRequest(groups_names=part) for part in batched([*self.classic, *self.new])]
        return {ErrorCode(one.error_code).name for answer in pipelined(wire, requests, 2) for one in answer.results}


def cpu_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(process):
    (line,) = (one for one in Path(f"/proc/{process.pid}/status").read_text().splitlines() if one.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def live(serve_process, wire_to, member_of, count, idle_seconds):
    """Their whole life; memory in MiB, the share of a core that they cost while idle, seconds to load them."""
    broker = serve_process(**SETTINGS)
    with Client(broker.address) as client:
        create_topic(client, "t", partition_count=4)
    wire = wire_to(broker.port).ready()
    before_mb = memory_mb(broker.process)
    crowd = Crowd(wire, count, member_of)
    figures = {"MiB": memory_mb(broker.process) - before_mb}
    told = crowd.told(wire)
    assert len(told[0]) == count
    assert {(one[2], one[3]) for one in told[0]} == {("Stable", "classic"), ("Stable", "consumer")}
    began = cpu_seconds(broker.process)
    time.sleep(idle_seconds)
    figures["idle CPU"] = (cpu_seconds(broker.process) - began) / idle_seconds
    broker.end(signal.SIGKILL)
    broker.start()
    began = time.monotonic()
    wire = wire_to(broker.port).ready()
    figures["s until all are loaded"] = time.monotonic() - began
    assert crowd.told(wire) == told
    assert crowd.delete(wire) == {"NON_EMPTY_GROUP"}
    crowd.leave(wire)
    assert {one[2] for one in wire.groups()} == {"Empty"}
    assert crowd.delete(wire) == {"NONE"}
    assert wire.groups() == []
    broker.end(signal.SIGKILL)
    broker.start()
    assert wire_to(broker.port).ready().groups() == []
    return figures


@pytest.mark.story
def test_a_hundred_groups(serve_process, wire_to, member_of):
    """As the ten thousand of the slow test."""
    live(serve_process, wire_to, member_of, 100, idle_seconds=0.1)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_ten_thousand_groups(serve_process, wire_to, member_of, capsys):
    """Some kilobytes each, and no CPU without requests."""
    figures = live(serve_process, wire_to, member_of, 10_000, idle_seconds=3)
    with capsys.disabled():
        print("\n10,000 groups:", ", ".join(f"{value:.3f} {name}" for name, value in figures.items()))
    assert figures["MiB"] < 300
    assert figures["idle CPU"] < 0.2
