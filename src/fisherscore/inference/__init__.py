"""Put a score to work: Fisher matrices, forecasts, best fits, summaries, posteriors, checks."""
