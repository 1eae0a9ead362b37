"""Domains: public rules that turn records into symbols 0 .. size-1."""
