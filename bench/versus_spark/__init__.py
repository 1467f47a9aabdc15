"""Spark over the archive beside Spark over Apache Kafka: the same records, the same session, in turns."""
