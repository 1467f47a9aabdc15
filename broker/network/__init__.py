"""Bytes in and bytes out: connections, frames, buffers, shares of memory and turns."""
