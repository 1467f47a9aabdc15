"""Maps that never change, and values that no collection of garbage looks at."""
