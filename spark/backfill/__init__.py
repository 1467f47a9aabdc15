"""An archive converted to Parquet files and lake tables, with the ledger as the commit point."""
