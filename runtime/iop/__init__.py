"""iop: one OpenAI-compatible address over a few unlike machines, with honest capacity."""

__version__ = "0.1.0"
