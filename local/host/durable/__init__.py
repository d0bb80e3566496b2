"""Durable Functions for one machine: history in Table Storage, work derived from it."""
