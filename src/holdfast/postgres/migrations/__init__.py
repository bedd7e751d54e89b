"""Forward-only migrations: a folder of numbered files, applied all or none. Knows nothing of jobs.

`migration` reads a folder, `runner` applies what a database lacks, `script` writes the same as text for psql,
`version` tells a worker, which has no right to change anything, whether it may start.
"""
