"""Reviewed rights of every persona, for tests with files and with a real API server."""
