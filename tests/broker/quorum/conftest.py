"""Values of the quorum, drawn by hypothesis, and messages as the other side of a connection gets them."""

from types import SimpleNamespace

import pytest
from hypothesis import strategies as st

from stratalog.metadata.raft import messages as raft
from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from stratalog.wire.errors import ErrorCode
from stratalog.wire.schema import decode, encode_bytes
from stratalog.wire.topic import ZERO_UUID

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

node_ids = st.integers(0, INT32_MAX)
epochs = st.integers(0, INT32_MAX)
offsets = st.integers(0, INT64_MAX)
directory_ids = st.binary(min_size=16, max_size=16)
keys = st.builds(ReplicaKey, node_ids, directory_ids)
hosts = st.text("abc.-019", min_size=1, max_size=20)
ports = st.integers(0, 65535)
endpoints = st.builds(Endpoint, st.text("ABC_", min_size=1, max_size=8), hosts, ports)
places = st.builds(raft.OffsetAndEpoch, offsets, epochs)
cluster_ids = st.sampled_from([None, "cluster"])
levels = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(sorted).map(tuple)
endpoint_lists = st.lists(endpoints, max_size=3, unique_by=lambda one: one.listener).map(tuple)
voters = st.builds(Voter, keys, endpoint_lists, levels)
voter_sets = st.lists(voters, max_size=5, unique_by=lambda voter: voter.key.id).map(
    lambda some: VoterSet(tuple(sorted(some, key=lambda voter: voter.key.id)))
)
joining = st.builds(Voter, keys, endpoint_lists)
id_keys = st.builds(ReplicaKey, node_ids, st.just(ZERO_UUID))
control_records = st.one_of(
    st.builds(
        raft.LeaderChange,
        node_ids,
        st.lists(id_keys, max_size=4).map(tuple),
        st.lists(id_keys, max_size=4).map(tuple),
    ),
    st.builds(raft.KRaftVersion, st.integers(0, 1)),
    st.builds(raft.Voters, voter_sets),
)


@st.composite
def fetches(draw):
    epoch = draw(epochs)
    return raft.FetchRequest(
        epoch,
        draw(keys),
        draw(offsets),
        draw(st.integers(0, epoch)),
        draw(st.integers(-1, INT64_MAX)),
        draw(st.integers(0, INT32_MAX)),
        draw(cluster_ids),
    )


requests = st.one_of(
    st.builds(raft.VoteRequest, epochs, keys, keys, epochs, offsets, st.booleans(), cluster_ids),
    st.builds(raft.BeginQuorumEpochRequest, epochs, node_ids, keys, endpoint_lists, cluster_ids),
    st.builds(raft.EndQuorumEpochRequest, epochs, node_ids, st.lists(keys, max_size=4).map(tuple), cluster_ids),
    fetches(),
    st.builds(raft.FetchSnapshotRequest, epochs, keys, places, offsets, cluster_ids),
    st.builds(raft.AddVoterRequest, joining, st.booleans(), cluster_ids),
    st.builds(raft.RemoveVoterRequest, keys, cluster_ids),
    st.builds(raft.UpdateVoterRequest, epochs, voters, cluster_ids),
)
"""Every request that a replica takes."""

errors = st.sampled_from(list(ErrorCode))


@st.composite
def leaders(draw):
    """Epoch, leader and its address under the listener ``CONTROLLER``, as far as an answer can carry them.

    An epoch with a leader is above 0: node 0 as the leader of epoch 0 is what Kafka's messages leave out as the default.
    """
    leader_id = draw(st.one_of(st.just(raft.NO_LEADER), node_ids))
    known = leader_id >= 0 and draw(st.booleans())
    epoch = max(draw(epochs), int(leader_id >= 0))
    return epoch, leader_id, (Endpoint("CONTROLLER", draw(hosts), draw(ports)),) if known else ()


@st.composite
def vote_answers(draw):
    return raft.VoteAnswer(draw(errors), *draw(leaders()), granted=draw(st.booleans()))


@st.composite
def epoch_answers(draw):
    return raft.EpochAnswer(draw(errors), *draw(leaders()))


@st.composite
def fetch_answers(draw):
    place = draw(st.one_of(st.none(), places))
    apart = draw(st.booleans())
    return raft.FetchAnswer(
        draw(errors),
        *draw(leaders()),
        high_watermark=draw(st.integers(-1, INT64_MAX)),
        diverging=place if apart else None,
        snapshot=None if apart else place,
    )


@st.composite
def snapshot_answers(draw):
    data = draw(st.binary(min_size=1, max_size=40))
    position = draw(st.integers(0, 1 << 40))
    size = position + len(data) + draw(st.integers(0, 1 << 40))
    return raft.FetchSnapshotAnswer(draw(errors), *draw(leaders()), draw(places), size, position, data)


@pytest.fixture(scope="session")
def drawn():
    """The strategies by name."""
    return SimpleNamespace(
        requests=requests,
        control_records=control_records,
        voter_sets=voter_sets,
        epochs=epochs,
        vote_answers=vote_answers(),
        epoch_answers=epoch_answers(),
        fetch_answers=fetch_answers(),
        snapshot_answers=snapshot_answers(),
        leaders=leaders(),
        errors=errors,
    )


@pytest.fixture(scope="session")
def carried():
    """``carried(message, version)``: the message as it comes out of a connection."""

    def carry(message, version):
        return decode(type(message), version, encode_bytes(message, version))

    return carry
