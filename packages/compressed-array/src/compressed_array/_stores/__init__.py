"""Stores: where an array's records are kept, each under a number.

`protocol` is all that an array knows of a store. `cells` keeps one record for each item, in any order; `frames` keeps
items that follow each other in time, every frame of them once; `selection` decides between the two.
"""
