"""Entry points: one blueprint per trigger family; each parses, calls one service and replies."""
