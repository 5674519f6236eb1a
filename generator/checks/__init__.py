"""Rules over manifests. They read plain YAML objects only, so they check any YAML, not just generated files."""
