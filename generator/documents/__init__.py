"""Read YAML as the clients of the API server read it, and write YAML that every parser reads alike."""
