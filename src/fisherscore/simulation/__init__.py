"""Simulate: proposals, latents and simulators, what comes of running them, and campaigns that survive kills."""
