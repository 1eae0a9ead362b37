"""Shared by all rooms: errors, strict reading, durable files, identities, searches."""
