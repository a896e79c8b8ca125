"""What tests of documents share: the code that is printed in them, and the environment that can run it."""
