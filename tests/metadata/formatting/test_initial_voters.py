"""First voters as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.metadata.formatting.initial_voters import (
    InitialVoter,
    is_reserved,
    parse_initial_voters,
    quorum_of,
)
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import uuid_text

DIRECTORY = "JEXY6aqzQY-32P5TStzaFg"
_HOSTS = st.sampled_from(["a", "host-1.example.com", "10.0.0.1", "::1", "fe80::1%eth0"])
_VOTERS = st.builds(
    InitialVoter,
    st.integers(0, (1 << 31) - 1),
    _HOSTS,
    st.integers(0, 65535),
    st.binary(min_size=16, max_size=16).filter(lambda each: not is_reserved(each)),
)


def text_of(voter: InitialVoter) -> str:
    """The entry of one voter."""
    host = f"[{voter.host}]" if ":" in voter.host else voter.host
    return f"{voter.node_id}@{host}:{voter.port}:{uuid_text(voter.directory_id)}"


@given(st.lists(_VOTERS, min_size=1, max_size=4, unique_by=(lambda each: each.node_id, lambda each: each.directory_id)))
def test_voters_come_back_by_id(voters):
    """The entries may come in any order."""
    assert parse_initial_voters(", ".join(map(text_of, voters))) == tuple(sorted(voters))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no voters given"),
        (",,", "no voters given"),
        ("1", "is not id@host:port:directory"),
        (f"1@a:9093{DIRECTORY}", "is not id@host:port:directory"),
        ("1@a:9093", "is not id@host:port:directory"),
        (f"@a:9093:{DIRECTORY}", "the node id '' of"),
        (f"-1@a:9093:{DIRECTORY}", "the node id '-1' of"),
        (f"9999999999@a:9093:{DIRECTORY}", "no number from 0 to 2147483647"),
        (f"1@:9093:{DIRECTORY}", "has no host"),
        (f"1@a:99999:{DIRECTORY}", "the port '99999' of"),
        (f"1@[::1:9093:{DIRECTORY}", "is not id@host:port:directory"),
        ("1@a:9093:x", "the directory id of '1@a:9093:x' cannot be read"),
        ("1@a:9093:AAAAAAAAAAAAAAAAAAAAAQ", "is reserved"),
        (f"1@a:9093:{DIRECTORY},1@b:9093:MvDxzVmcRsaTz33bUuRU6A", "node id 1 was specified more than once"),
        (f"1@a:9093:{DIRECTORY},2@b:9093:{DIRECTORY}", "node 2 has the directory id of another voter"),
    ],
)
def test_an_entry_that_is_no_voter_is_refused(text, why):
    """The message has the entry and its part."""
    with pytest.raises(Invalid, match=why):
        parse_initial_voters(text)


def test_the_first_hundred_ids_are_reserved():
    """They stand for directories that are lost, unassigned or migrating."""
    assert is_reserved((99).to_bytes(16, "big"))
    assert not is_reserved((100).to_bytes(16, "big"))


def test_voters_become_a_quorum_of_kraft_version_1():
    """Each has one endpoint and the levels that this release runs."""
    (voter,) = parse_initial_voters(f"3@a:9093:{DIRECTORY}")
    quorum = quorum_of([voter], "CONTROLLER")
    assert quorum.kraft_version == 1
    (found,) = quorum.voters
    assert (found.voter_id, found.voter_directory_id) == (3, voter.directory_id)
    assert [(end.name, end.host, end.port) for end in found.endpoints] == [("CONTROLLER", "a", 9093)]
    assert found.kraft_version_feature.max_supported_version == 1
