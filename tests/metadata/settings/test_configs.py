"""The one import for settings."""

from stratalog.metadata.settings import configs


def test_every_public_name_is_there():
    """All names that the other rooms import from here exist."""
    assert [name for name in configs.__all__ if not hasattr(configs, name)] == []


def test_kafkas_own_server_properties_are_understood():
    """Every setting of the file that Kafka 4.3 ships parses, and together they agree."""
    shipped = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "inter.broker.listener.name": "PLAINTEXT",
        "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
        "num.network.threads": "3",
        "num.io.threads": "8",
        "socket.send.buffer.bytes": "102400",
        "socket.receive.buffer.bytes": "102400",
        "socket.request.max.bytes": "104857600",
        "log.dirs": "/tmp/kraft-combined-logs",
        "num.partitions": "1",
        "num.recovery.threads.per.data.dir": "2",
        "offsets.topic.replication.factor": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "log.retention.hours": "168",
        "log.segment.bytes": "1073741824",
        "log.retention.check.interval.ms": "300000",
    }
    values = {name: row.parse(shipped[name]) for name, row in configs.definitions().items() if name in shipped}
    assert len(values) == len(shipped)
    defaults = {name: row.default for name, row in configs.definitions().items()}
    assert configs.broker_problems({**defaults, **values}) == []
