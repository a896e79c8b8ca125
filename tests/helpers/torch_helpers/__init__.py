"""What the tests of the buffers for plain torch share. Each module needs torch, `torchrl_streams` TorchRL."""
