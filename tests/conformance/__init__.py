"""The Azure SDK's own live tests, run against the embedded broker: `python -m tests.conformance`."""
