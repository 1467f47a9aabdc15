"""Object stores behind one port, and the wrappers around them."""
