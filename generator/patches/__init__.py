"""Changes of generated objects: the selection of objects, merges, JSON patches, and functions in Python."""
