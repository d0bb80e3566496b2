"""What the function app is made of: decisions in domain, verbs in services, the outside world in adapters."""
