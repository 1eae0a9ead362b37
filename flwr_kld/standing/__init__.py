"""Standing sessions: the same records asked night after night, under one charge."""
