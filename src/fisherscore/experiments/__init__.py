"""Complete runs from simulation to figures, as the command line starts them."""
