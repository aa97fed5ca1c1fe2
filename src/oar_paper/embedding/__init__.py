"""MNIST as the paper embeds it: the autoencoder, its files, and what a member's move means in pixels."""
