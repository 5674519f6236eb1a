"""Attacks on a platform, and requests of a normal day, as data: corpus/*.yaml."""
