"""The parts that the archive of a broker gets."""

from types import SimpleNamespace

from stratalog.broker import archive_assembly
from stratalog.hot.storage.filesystem import RealFilesystem


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
