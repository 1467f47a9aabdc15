"""The memory of a voter of the metadata quorum."""
