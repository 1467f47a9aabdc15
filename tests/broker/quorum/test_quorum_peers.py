"""A quorum of one node has no peers."""

import pytest

from stratalog.broker.quorum.quorum_peers import NoAnswer, NoPeers
from stratalog.metadata.raft.messages import ApiVersionsRequest
from stratalog.wire.errors import ErrorCode


async def test_a_request_to_another_node_has_no_answer():
    """The sentence names the node."""
    peers = NoPeers()
    with pytest.raises(NoAnswer, match="node 7 is unknown") as refused:
        await peers.ask(7, ApiVersionsRequest(), ())
    assert refused.value.code is ErrorCode.BROKER_NOT_AVAILABLE
    peers.close()
