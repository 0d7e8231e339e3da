"""A whole analysis from one file: its configuration, its stages, its page."""
