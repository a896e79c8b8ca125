"""What the tests with SB3 share. Each module needs SB3."""
