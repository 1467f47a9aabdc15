"""Kafka Connect: a file is copied into another one through a topic."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

FILES = "org.apache.kafka.connect.file.FileStream"
CONVERTERS = (
    "key.converter=org.apache.kafka.connect.storage.StringConverter\n"
    "value.converter=org.apache.kafka.connect.storage.StringConverter\n"
    "listeners=http://127.0.0.1:0\n"
    "offset.flush.interval.ms=200\n"
    "plugin.discovery=service_load\n"
)


@pytest.fixture(scope="module")
def broker(kafka, serve):
    return serve("group.initial.rebalance.delay.ms=0")


@pytest.fixture
def standalone(background, broker, tmp_path):
    """Starts a worker with a source that reads ``in`` and a sink that writes ``out``."""
    (tmp_path / "worker").write_text(
        f"bootstrap.servers={broker.address}\n{CONVERTERS}offset.storage.file.filename={tmp_path}/offsets\n"
    )
    (tmp_path / "source").write_text(
        f"name=source\nconnector.class={FILES}SourceConnector\nfile={tmp_path}/in\ntopic=lines\n"
    )
    (tmp_path / "sink").write_text(
        f"name=sink\nconnector.class={FILES}SinkConnector\nfile={tmp_path}/out\ntopics=lines\n"
    )
    files = [str(tmp_path / name) for name in ("worker", "source", "sink")]
    return lambda: background("org.apache.kafka.connect.cli.ConnectStandalone", *files)


def test_a_file_is_copied_over_a_restart_and_a_kill(standalone, until, tmp_path) -> None:
    """Stopped in order it goes on where it was; killed it may repeat lines, and loses none."""
    source, sink = tmp_path / "in", tmp_path / "out"
    lines: list[str] = []

    def write(count: int) -> None:
        more = [f"line {len(lines) + n}" for n in range(count)]
        lines.extend(more)
        with source.open("a") as file:
            file.write("".join(f"{line}\n" for line in more))

    def copied() -> list[str]:
        return sink.read_text().splitlines() if sink.exists() else []

    write(3000)
    worker = standalone()
    until(lambda: worker.alive() and len(copied()) >= len(lines))
    assert copied() == lines
    worker.stop()
    write(3000)
    worker = standalone()
    until(lambda: worker.alive() and len(copied()) >= len(lines))
    assert copied() == lines
    write(3000)
    until(lambda: worker.alive() and len(copied()) > 6000)
    worker.kill()
    write(3000)
    worker = standalone()
    until(lambda: worker.alive() and copied()[-1:] == lines[-1:])
    assert list(dict.fromkeys(copied())) == lines
