"""What each persona may do, as data: asked of files, and of a real API server."""
