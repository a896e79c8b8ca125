# As printed in the README of rl_buffer, with the imports changed: MIT License, (c) 2025 windlx.
import torch
from compressed_array_torch.replay_buffer import ReplayBuffer
from compressed_array_torch.stats_tracker import StatsTracker

# 1. Environment and buffer configuration
NUM_ENVS = 4
BUFFER_SIZE = 1000
BATCH_SIZE = 64
OBS_SHAPE = (16,)
ACTION_SHAPE = (4,)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# 2. Initialize StatsTracker and ReplayBuffer
stats_tracker = StatsTracker(num_envs=NUM_ENVS)
replay_buffer = ReplayBuffer(
    buffer_size=BUFFER_SIZE,
    num_envs=NUM_ENVS,
    obs_shape=OBS_SHAPE,
    action_shape=ACTION_SHAPE,
    stats_tracker=stats_tracker,
    device=DEVICE
)

print(f"--- Populating ReplayBuffer on {DEVICE} ---")

# 3. Simulate a data collection loop
for step in range(BUFFER_SIZE):
    # Generate dummy data
    obs = torch.randn(NUM_ENVS, *OBS_SHAPE)
    action = torch.randn(NUM_ENVS, *ACTION_SHAPE)
    reward = torch.randn(NUM_ENVS)
    # Simulate an environment terminating roughly every 100 steps
    done = torch.rand(NUM_ENVS) < 0.01
    truncated = torch.zeros(NUM_ENVS, dtype=torch.float32)
    next_obs = torch.randn(NUM_ENVS, *OBS_SHAPE)

    replay_buffer.add(obs, action, reward, done, next_obs, truncated)

print(f"Buffer populated. Current size: {len(replay_buffer)}")

# 4. Sample a batch from the buffer
if len(replay_buffer) > BATCH_SIZE:
    print(f"\n--- Sampling a batch of size {BATCH_SIZE} ---")
    batch = replay_buffer.get(batch_size=BATCH_SIZE)
    print(f"Sampled observations shape: {batch.observations.shape}")
    print(f"Sampled actions shape: {batch.actions.shape}")
    print(f"Sampled rewards shape: {batch.rewards.shape}")

# 5. View statistics
print("\n--- Episode Statistics ---")
stats = stats_tracker.get_statistics()
for key, value in stats.items():
    print(f"{key}: {value:.4f}")
