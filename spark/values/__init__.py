"""Values of records to columns: JSON, Avro, Protobuf, with a schema registry or a file."""
