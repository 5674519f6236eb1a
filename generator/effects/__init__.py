"""Plans: what an update of a release means, by topic, from the manifests before and after."""
