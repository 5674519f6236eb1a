"""YAML text ⇄ plain data: read as the API server's clients read it, written so that every reader agrees."""
