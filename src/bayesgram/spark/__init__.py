"""The Spark engine: counting and discovery where one machine is not enough.

`counts` gives mechanisms the same aggregates as counts in memory do, from a Spark cluster;
`vocabulary` counts public text and `discovery` sums candidates there. `tasks` is what Spark's tasks
run, `frames` builds the DataFrames that they read, `sharing` brings them public objects, and
`session` starts Spark and its Java for commands, or connects to a server. One machine needs none of
them: see `private`.
"""
