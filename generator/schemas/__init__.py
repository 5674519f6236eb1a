"""JSON Schemas compiled from pinned upstream releases, and the two engines that validate manifests against them."""
