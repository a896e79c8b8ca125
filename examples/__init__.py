"""Small programs that check their own claims: `python -m examples.numpy_array`."""
