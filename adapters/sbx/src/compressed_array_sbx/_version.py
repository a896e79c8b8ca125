"""The one place that holds the version: the build reads it, and importing it costs nothing."""

__version__ = "0.1.0"
