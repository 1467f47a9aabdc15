"""The services that the parts of a broker get."""

import ast
from pathlib import Path
from types import SimpleNamespace

from stratalog.broker import archive_assembly, assembly, node
from stratalog.hot.storage.filesystem import RealFilesystem
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
    )
    services = assembly.new_views(broker)._services
    assert all(getattr(services, name) is not broker for name in type(services).__slots__)
    assert services.wake is broker.purgatory.check
    broker.image = later = ClusterImage()
    assert services.image() is later


async def test_deleted_archives_are_noted_in_the_directory_of_the_metadata(tmp_path):
    """Their grace is the one that is set when it is asked for."""
    settings = {"stratalog.trash.grace.ms": 5, "stratalog.trash.check.interval.ms": 7, "stratalog.read.only": False}
    homes = [
        SimpleNamespace(path=f"{tmp_path}/{name}", files=SimpleNamespace(files=RealFilesystem())) for name in ("a", "m")
    ]
    broker = SimpleNamespace(
        directories=SimpleNamespace(all=homes),
        config=SimpleNamespace(
            metadata_log_dir=f"{tmp_path}/m", integer=settings.__getitem__, boolean=settings.__getitem__
        ),
        tiering=SimpleNamespace(submit=object()),
        clock=SimpleNamespace(wall_ms=lambda: 0),
        cluster_id="c",
    )
    deleted = archive_assembly.new_deleted_archives(broker)
    assert deleted._path.startswith(f"{tmp_path}/m/")
    assert deleted._files is homes[1].files.files
    assert deleted.pending == []
    settings["stratalog.trash.grace.ms"] = 50
    assert deleted._ports.grace_ms() == 50
