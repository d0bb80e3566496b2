"""A rehearsed outage that a newcomer watches; never deployed."""
