"""The paper's school district."""
