"""The committing variant (paper, Discussion): policies that are followed all the way, side by side."""

from worldfork.lab.deployments.history import Batch, deployment_batches
from worldfork.lab.deployments.segment import Advanced, advance
from worldfork.lab.deployments.state import State, begin, rebuild

__all__ = ["Advanced", "Batch", "State", "advance", "begin", "deployment_batches", "rebuild"]
