"""The command line. It uses the library as any program does, and nothing imports it but `__main__`.

`app` puts the commands together: one module for each (`codecs`, `recommend`, `inspect`, `verify`, `convert`, `bench`).
`failures` says which exit code an error has, `output` is all that a person or a program gets to see. What a command
works on comes from `sources` (files of arrays, videos), `play` (environments) or `saved` (what this package has saved).
"""

INTERRUPTED = 130  # the exit code after Ctrl-C; here, since `__main__` needs it before typer is known to be installed
