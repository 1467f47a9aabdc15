"""A client of Kafka's protocol: one connection, and on it metadata, records, groups, transactions, administration."""
