"""The cluster as one immutable value, and its way to the metadata log and back."""
