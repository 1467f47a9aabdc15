"""Every setting: how it is resolved, and the rules that look at several at once."""
