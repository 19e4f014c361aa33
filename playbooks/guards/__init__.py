"""What the report callback guards a run with: one run at a time, and a Ctrl-C that ends it."""
