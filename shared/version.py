"""The app's version; pyproject.toml holds the same, kept equal by a test."""

VERSION = "0.1.0"
