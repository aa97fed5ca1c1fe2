"""Plot data, figures and pages."""
