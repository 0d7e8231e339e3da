"""Functions ℓ(θ, x) whose gradient in θ is a score: closed forms, each with its fit, networks, and weighted sums."""
