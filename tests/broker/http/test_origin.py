"""Access without a password: by the address the request came to and the name it used."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from stratalog.broker.http.origin import host_is_local, this_host_only


class Arrived:
    """A connection that came to this address."""

    def __init__(self, address):
        self.address = address

    def get_extra_info(self, name, default=None):
        return {"sockname": (self.address, 8080), "peername": ("10.9.9.9", 5000)}.get(name, default)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8080", "localhost", "LOCALHOST.:1", "[::1]:80", "127.8.8.8", "a.localhost"]
)
def test_names_of_the_machine_itself(host):
    """With and without a port."""
    assert host_is_local({"Host": host})


@pytest.mark.parametrize(
    "host", ["", "evil.example:8080", "localhost.evil.example", "10.0.0.1", "[::2]", "127.0.0.1.evil"]
)
def test_foreign_names_are_refused(host):
    """A Host header that is empty, foreign or only begins like a local name is not local."""
    assert not host_is_local({"Host": host})


@pytest.mark.parametrize(
    ("address", "host", "status"),
    [
        ("127.0.0.1", "127.0.0.1:8080", 200),
        ("127.0.0.1", "evil.example", 421),
        ("::1", "evil.example", 421),
        ("10.1.2.3", "broker.example", 200),
    ],
)
async def test_over_loopback_only_a_local_name_is_answered(address, host, status):
    """A page that has pointed its own name at 127.0.0.1 learns nothing;
    other listeners are their operators' to guard.
    """

    async def route(_request):
        return web.Response(text="secret")

    request = make_mocked_request("GET", "/v1/tier", headers={"Host": host}, transport=Arrived(address))
    answer = await this_host_only({"/livez"})(request, route)
    assert answer.status == status
    assert (answer.text == "secret") == (status == 200)


async def test_open_paths_are_answered_under_every_name():
    """A load balancer asks by any name."""

    async def route(_request):
        return web.Response(text="ok")

    request = make_mocked_request("GET", "/livez", headers={"Host": "evil.example"}, transport=Arrived("127.0.0.1"))
    assert (await this_host_only({"/livez"})(request, route)).status == 200
