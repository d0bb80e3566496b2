"""What stands in for Azure's test tooling inside a worker: a pytest plugin and the modules it puts in place."""
