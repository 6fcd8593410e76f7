"""Closed-loop deployments: policies whose updates stay in force (paper, Discussion), side by side."""
