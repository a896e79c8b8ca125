"""The store of items that follow each other in time.

An item is divided into frames (`layouts`, `stacks`). A lane (`lanes`) compares each item with the one before and hands
the new frames to its open group (`groups`). Frames are written as the smallest of several records (`records`, with
`residuals` and `codebooks`); rows of a few numbers are packed by bits (`bitpack`). An engine, native or numpy's, writes
and reads them. `policy` decides how the next groups are written, by trying some frames (`trials`), and `upkeep`
processes groups that are full or dead. `store` is all of that together.
"""
