"""Jobs: what tenants write for a platform's runtimes, and how large it may be."""
