"""What a user would pick instead, each in an environment of its own, and what both are asked to do."""
