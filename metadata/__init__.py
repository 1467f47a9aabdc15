"""Pure decisions of the cluster: its image, the controller, the settings. No I/O, no clocks, no randomness."""
