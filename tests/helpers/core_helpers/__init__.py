"""What tests of all packages share: plain numpy and the core, nothing that an adapter needs."""
