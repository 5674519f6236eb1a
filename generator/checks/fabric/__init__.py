"""fabric/*: do all the objects agree by which pods get at a fabric, and do ranks then use it?

`alone` holds the rules over single objects, `rules` those that need several of them.
"""
