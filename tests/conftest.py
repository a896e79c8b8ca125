"""What all tests share: how many examples hypothesis tries."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A shared or busy machine is slow now and then; how long an example takes is nothing these tests are about.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=40)
settings.register_profile("fewer", settings.get_profile("default"), max_examples=20)
settings.register_profile("quick", settings.get_profile("default"), max_examples=10)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
