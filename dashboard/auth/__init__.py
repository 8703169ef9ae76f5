"""Permissions to read and to triage: checked by the middleware, and again before each write."""
