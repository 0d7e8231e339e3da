"""Rounds of simulations that follow the posterior of one observation."""
