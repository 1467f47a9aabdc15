"""The state that a voter of the metadata quorum stores."""
