"""What every other folder needs: errors, strict reading, files that last, identities, searches."""
