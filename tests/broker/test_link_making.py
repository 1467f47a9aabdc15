"""Links to other nodes, by purpose."""

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor

from stratalog.broker.link_making import LinkMaking
from stratalog.broker.peers.peer_errors import Peer
from stratalog.broker.runtime.clock import SystemClock
from stratalog.wire.messages.api_versions import ApiVersionsRequest


async def test_the_other_node_sees_the_purpose_and_the_id_in_the_client_id():
    """Its log lines tell heartbeats from forwarded requests by that."""
    seen = asyncio.get_running_loop().create_future()

    async def connected(reader, writer):
        seen.set_result(await reader.read(200))
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    with ThreadPoolExecutor(1) as threads:
        making = LinkMaking(node_id=7, executor=threads, clock=SystemClock(), dice=random.Random(1))
        link = making.link_to("heartbeat")(Peer(1, "127.0.0.1", server.sockets[0].getsockname()[1]))
        asked = link.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), timeout_ms=5000)
        assert b"heartbeat-7" in await seen
        link.close()
        await asyncio.wait({asked})
        asked.exception()
        await link.wait_closed()
    server.close()
    await server.wait_closed()
