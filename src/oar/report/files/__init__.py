"""Files of a report, written whole and known again."""
