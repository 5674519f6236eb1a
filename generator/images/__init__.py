"""Container images as OCI layouts, archives and root filesystems, and the check of an image for a runtime."""
