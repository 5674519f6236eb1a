"""The cause of a failed or waiting job, from its logs, events and conditions.

The causes are tables in generator/facts/causes. `scan` finds their lines in a log, and `answer` decides between them.
"""
