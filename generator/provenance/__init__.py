"""The way back from a generated object to the lines of the platform file that cause it."""
