"""The verbs: they carry out what the domain decides, through ports."""
