"""Fit a score to simulations: recipes, training, and how candidates are compared and weighed."""
