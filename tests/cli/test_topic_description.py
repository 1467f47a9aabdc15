"""``stratalog topic describe``: replicas of each kind, and only the partitions that are short of some."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from stratalog.cli.main import cli
from stratalog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsResponse
from tests.client import told_topics as told

ROWS = [
    (1, (1, 2, 3), (1, 2, 3), ()),
    (2, (2, 3, 1), (2, 1), (3,)),
    (1, (3, 1, 2), (1,), (3,)),
    (-1, (3, 2, 1), (), (3,)),
]


@pytest.fixture
def ask(scripted):
    """Asks a cluster whose broker 3 is away, and returns the exit code, stdout and stderr."""
    scripted.ranges = {2: (1, 11), 3: (0, 13), 18: (0, 4), 32: (1, 4), 46: (0, 0), 75: (0, 0)}
    scripted.answers |= {
        3: told.metadata(scripted.port, (1, 2), {"t": ROWS}),
        32: told.configs({"t": {"min.insync.replicas": "2"}}),
        46: ListPartitionReassignmentsResponse(topics=[]),
        75: told.topic_partitions({"t": {0: [], 1: [], 2: [2], 3: [1, 2]}}),
    }

    def asked(*arguments: str):
        command = ["topic", "describe", "-b", scripted.address, "--timeout", "2", *arguments]
        found = CliRunner().invoke(cli, command)
        return found.exit_code, found.stdout, found.stderr

    return asked


def test_partitions_that_are_short_of_replicas_have_their_reasons(ask):
    """Those that meet one of the options, with the reasons."""
    code, out, _ = ask("--under-replicated", "--at-min-isr", "--under-min-isr", "--unavailable")
    assert code == 0
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["t", "1", "2", "7", "2,3,1", "2,1", "-", "3", "under-replicated,at-min-isr"],
        ["t", "2", "1", "7", "3,1,2", "1", "2", "3", "under-replicated,under-min-isr"],
        ["t", "3", "-", "7", "3,2,1", "-", "1,2", "3", "under-replicated,under-min-isr,unavailable"],
    ]
    assert [line.split()[1] for line in ask("--unavailable", "t")[1].splitlines()[1:]] == ["3"]
    (row,) = ask("--at-min-isr", "--json")[1].splitlines()
    assert '"partition": 1' in row
    assert '"eligible": []' in row
    assert '"lacks": ["at-min-isr"]' in row


def test_a_topic_or_an_option_is_needed(ask):
    """All partitions of all topics would be too much to have asked for by accident."""
    code, _, err = ask()
    assert code == 2
    assert "--under-replicated" in err


def test_a_described_topic_shows_its_replicas(stratalog, topic):
    """The only replica leads, is in sync, and none is offline."""
    (described,) = stratalog("topic", "describe", topic, "--json").rows
    first = described["partitions"][0]
    leader = first["leader"]
    assert (first["replicas"], first["in_sync"], first["eligible"], first["offline"]) == ([leader], [leader], [], [])
    text = stratalog("topic", "describe", topic).out
    heading = next(line for line in text.splitlines() if line.startswith("PARTITION"))
    assert "IN SYNC  ELIGIBLE  OFFLINE  LOG START  LOG END" in heading
    assert stratalog("topic", "describe", "--under-replicated").out.count("\n") == 1
