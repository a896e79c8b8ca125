# As printed in the README of rl_buffer, with the imports changed: MIT License, (c) 2025 windlx.
import torch
from compressed_array_torch.rollout_buffer import RolloutBuffer
from compressed_array_torch.stats_tracker import StatsTracker

# 1. Environment and buffer configuration
NUM_ENVS = 4
BUFFER_SIZE = 256  # Often called n_steps in on-policy settings
BATCH_SIZE = 64
N_EPOCHS = 4
OBS_SHAPE = (16,)
ACTION_SHAPE = (1,)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# 2. Initialize StatsTracker and RolloutBuffer
stats_tracker = StatsTracker(num_envs=NUM_ENVS)
rollout_buffer = RolloutBuffer(
    buffer_size=BUFFER_SIZE,
    num_envs=NUM_ENVS,
    obs_shape=OBS_SHAPE,
    action_shape=ACTION_SHAPE,
    stats_tracker=stats_tracker,
    device=DEVICE
)

print(f"--- Collecting one rollout of {BUFFER_SIZE} steps on {DEVICE} ---")

# 3. Simulate data collection (one full rollout)
for _ in range(BUFFER_SIZE):
    # Generate dummy data (including value and log_prob)
    obs = torch.randn(NUM_ENVS, *OBS_SHAPE)
    action = torch.randn(NUM_ENVS, *ACTION_SHAPE)
    reward = torch.randn(NUM_ENVS)
    done = torch.zeros(NUM_ENVS, dtype=torch.bool)
    value = torch.randn(NUM_ENVS)
    log_prob = torch.randn(NUM_ENVS)

    rollout_buffer.add(obs, action, reward, done, value, log_prob)

print("Rollout collection complete.")

# 4. Compute Advantages and Returns
# Simulate getting the value estimate for the last state
last_values = torch.randn(NUM_ENVS)
last_dones = torch.zeros(NUM_ENVS, dtype=torch.bool)
rollout_buffer.compute_returns_and_advantages(last_values, last_dones)

print("\n--- Simulating training loop for PPO ---")
# 5. Use the generator for multi-epoch training
for epoch in range(N_EPOCHS):
    batch_count = 0
    # The get() method returns a generator
    for batch in rollout_buffer.get(batch_size=BATCH_SIZE):
        # Your training step would go here...
        # train_on_batch(batch)
        batch_count += 1
    
    print(f"Epoch {epoch + 1}: Trained on {batch_count} mini-batches.")

# 6. View statistics
print("\n--- Episode Statistics ---")
stats = stats_tracker.get_statistics()
if not stats:
    print("No complete episodes during this short rollout.")
else:
    for key, value in stats.items():
        print(f"{key}: {value:.4f}")
