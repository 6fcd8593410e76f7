"""worldfork: was this model update worth it?"""

__version__ = "0.1.0"
