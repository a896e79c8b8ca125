"""`CompressedArray`, the face that looks like a numpy array: keys, views, functions, pickles and files.

It stands on a store and knows of it what `_stores.protocol` says.
"""
