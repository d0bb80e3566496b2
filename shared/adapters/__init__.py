"""Ports implemented with the Azure SDKs; nothing else looks at an SDK's types or exceptions."""
