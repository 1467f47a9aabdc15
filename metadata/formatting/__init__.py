"""The content of the files of a new node, from its settings and the options of `stratalog format`."""
