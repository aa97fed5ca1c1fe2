"""Goals and their losses: one label of one query, and everything beyond."""

from oar.goals.aimed import Aimed
from oar.goals.keep import Keep
from oar.goals.wishes import ClassWish, ValueWish, Wish, wish_words
from oar.goals.words import AnyBut, Between, GoalText, Members

__all__ = ["Aimed", "AnyBut", "Between", "ClassWish", "GoalText", "Keep", "Members", "ValueWish", "Wish", "wish_words"]
