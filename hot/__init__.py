"""The hot log: one partition's segments, indexes and states on local disk, in Apache Kafka's file formats."""
