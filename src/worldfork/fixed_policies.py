"""Names of the policies that read nothing and are part of every deployment."""

from typing import Final

FIXED_POLICIES: Final = ("never", "always")  # in the order in which deployments run them
