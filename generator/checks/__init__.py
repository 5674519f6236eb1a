"""Rules over manifests: each reads plain objects, never the generator's own, so that it judges anybody's YAML."""
