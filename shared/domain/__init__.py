"""Pure decisions over frozen values: no input or output, no clock, no randomness of its own."""
