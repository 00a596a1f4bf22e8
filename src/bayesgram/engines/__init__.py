"""Where the counting runs when one machine is not enough.

`spark` gives mechanisms the same answers as counts in memory do, from a Spark cluster; `tasks` is what its tasks run;
`session` and `java` start Spark for commands. One machine needs none of them: see `private`.
"""
