"""PyTorch modules as models that are retrained and differentiated."""
