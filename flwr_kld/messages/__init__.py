"""What crosses a wire: questions, answers, the terms of noise and release, sealed counts."""
