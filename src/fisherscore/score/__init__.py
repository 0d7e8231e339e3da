"""Score models: what a fit returns, in the user's units, and how scores add."""
