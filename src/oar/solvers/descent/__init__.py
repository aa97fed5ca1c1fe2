"""First-order descent over everyone's moves: signal, response, refit, from several starts."""
