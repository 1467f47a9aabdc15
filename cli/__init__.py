"""Every command of ``stratalog``. The only room that may import all others."""
