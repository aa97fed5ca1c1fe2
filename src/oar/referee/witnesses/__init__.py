"""Who refits in the audit: implementations that the solvers have no part in."""
