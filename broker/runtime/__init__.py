"""The ground of callbacks: clocks, the loop, ticks, slices of work, metrics, limits of the log."""
