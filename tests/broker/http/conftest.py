import asyncio
import time

import pytest

from stratalog.broker.runtime.slices import Slices


@pytest.fixture
async def slices():
    """The turns of the test's own loop."""
    return Slices(asyncio.get_running_loop().call_soon, time.monotonic)
