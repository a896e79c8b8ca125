"""`CompressedArray`, the face that looks like a numpy array: keys, views, functions, pickles and files.

It keeps its items in a store, of which it knows what `_stores.protocol` says.
"""
