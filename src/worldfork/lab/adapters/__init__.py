"""Agents and worlds of other libraries, each behind worldfork's own contract."""
