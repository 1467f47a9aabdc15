"""The files of the page, as they are served."""

import re
from importlib import resources

import aiohttp
import pytest

from stratalog.broker.http.listener import HttpListener
from stratalog.broker.http.page_files import FILES, page_routes
from stratalog.broker.http.server import HttpServer
from stratalog.broker.runtime.metrics import Metrics


@pytest.fixture
async def get(slices):
    """Get a path of a running server."""
    server = HttpListener(lambda: HttpServer(Metrics(), list, page_routes(), slices=slices), pytest.fail)
    host, port = await server.bind("127.0.0.1", 0)
    server.serve()
    async with aiohttp.ClientSession(f"http://{host}:{port}") as session:

        async def get(path, **headers):
            async with session.get(path, headers=headers) as response:
                return response.status, await response.text(), response.headers

        yield get
    await server.close()


@pytest.mark.parametrize("path", sorted(FILES))
async def test_every_file_is_served_with_its_type_and_leave_for_nothing_else(get, path):
    """No script, style or connection from anywhere but here; no page may frame it or guess types."""
    status, _, headers = await get(path)
    assert status == 200
    assert headers["Content-Type"] == FILES[path][1]
    policy = dict(rule.split(" ", 1) for rule in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "img-src", "connect-src")} == {"'self'"}
    assert headers["X-Content-Type-Options"] == "nosniff"


async def test_a_cached_file_is_not_sent_again(get):
    """By its tag; another tag gets the file."""
    _, _, headers = await get("/")
    status, text, _ = await get("/", **{"If-None-Match": headers["ETag"]})
    assert (status, text) == (304, "")
    assert (await get("/", **{"If-None-Match": '"old"'}))[0] == 200


async def test_other_files_of_the_package_are_not_found(get):
    """There is no path into the file system."""
    for path in ("/page/", "/page/../http.py", "/page/%2e%2e/http.py", "/page/page.py", "/index.html"):
        assert (await get(path))[0] == 404, path


def test_every_file_of_the_folder_is_served_and_refers_only_to_such():
    """No file is forgotten, and none asks for one that is not here or for another place."""
    folder = resources.files("stratalog.broker.http") / "page"
    assert {one.name for one in folder.iterdir()} == {name for name, _ in FILES.values()}
    for path, (name, _) in FILES.items():
        text = (folder / name).read_text()
        for target in re.findall(r'(?:src|href)="([^"#]+)"', text) + re.findall(r"url\(([^)]+)\)", text):
            assert target in FILES or target in {"/v1/tier", "/metrics"}, (path, target)
        for target in re.findall(r'from "\./([^"]+)"', text):
            assert f"/page/{target}" in FILES, (path, target)
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == []
        assert "innerHTML" not in text
