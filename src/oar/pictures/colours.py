"""Okabe & Ito's colours, which people with any common colour blindness can tell apart."""

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#6B6B6B"

CLASS_COLOURS = (BLUE, ORANGE, PURPLE, GREEN, VERMILLION, SKY, YELLOW)
CLASS_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
