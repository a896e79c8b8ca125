"""What the tests of arrays on a device share. Each module needs torch."""
