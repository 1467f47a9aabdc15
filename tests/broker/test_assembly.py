"""The services that the parts of a broker get."""

import ast
from pathlib import Path
from types import SimpleNamespace

from stratalog.broker import assembly, node
from stratalog.metadata.image.image import ClusterImage

ROOM = Path(node.__file__).parent


def test_only_root_files_know_the_node():
    """The others are handed what they use, by name."""
    knowing = set()
    for path in ROOM.rglob("*.py"):
        for found in ast.walk(ast.parse(path.read_text())):
            if isinstance(found, ast.ImportFrom) and found.module == "stratalog.broker.node":
                knowing.add(path.relative_to(ROOM).as_posix())
    assert knowing - {"embedded.py", "cli_serve.py"} == set()
    assert "embedded.py" in knowing


def test_functions_are_handed_on_not_the_broker():
    """A part gets no attribute through which it could reach everything."""
    broker = SimpleNamespace(
        node_id=3,
        clock=object(),
        image=ClusterImage(),
        partitions=object(),
        tiering=SimpleNamespace(submit=object(), chunks=object()),
        deep_work=SimpleNamespace(search=object()),
        purgatory=SimpleNamespace(check=object()),
        replication=SimpleNamespace(leader_ends=object()),
    )
    services = assembly.new_views(broker)._services
    assert all(getattr(services, name) is not broker for name in type(services).__slots__)
    assert services.wake is broker.purgatory.check
    broker.image = later = ClusterImage()
    assert services.image() is later
