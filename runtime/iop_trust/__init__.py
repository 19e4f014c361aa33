"""The small authority of an installation, and the tokens of its nodes: files on the control machine only."""
