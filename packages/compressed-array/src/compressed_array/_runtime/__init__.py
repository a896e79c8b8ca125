"""What everything else is built on: memory, threads, epochs of readers, files and their headers, and compiled kernels.

Nothing here knows what a codec, a record or an array is.
"""
