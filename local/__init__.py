"""Development-time parts: never deployed."""
