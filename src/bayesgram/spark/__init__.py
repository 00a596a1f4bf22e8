"""Where the counting runs when one machine is not enough.

`spark` gives mechanisms the same answers as counts in memory do, from a Spark cluster; `texts` is what it reads,
`vocabulary` what it makes of public text, `tasks` what its tasks run, and `frames` how they are started. `session` and
`java` start Spark for commands. One machine needs none of them: see `private`.
"""
