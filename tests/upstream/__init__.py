"""Find the statements of mpigen that a new version of an upstream module may change."""
