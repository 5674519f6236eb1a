"""JobSet: the webhook, and the Jobs of a JobSet."""
