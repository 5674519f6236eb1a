"""The rules between sections. They read a PartialPlatform and import only models."""
