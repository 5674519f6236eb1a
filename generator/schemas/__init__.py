"""JSON Schemas compiled from pinned upstream releases, and the two engines that judge manifests by them."""
