"""The causes of failed and waiting jobs: a table for each stage, in the form of causes.schema.json."""
