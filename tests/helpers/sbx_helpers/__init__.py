"""What the tests with SBX share. Each module needs gymnasium, and `jax_envs` SB3."""
