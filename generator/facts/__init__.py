"""Facts about the world outside mpigen, each in one place: builders, the platform file and checks read them here."""
