"""Priors: what users give (laws by name, joint ones, draws, any log-density, regions), made into what samplers need."""
