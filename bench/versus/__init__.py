"""stratalog beside Apache Kafka, the two loaded in turn by the same clients in one run."""
