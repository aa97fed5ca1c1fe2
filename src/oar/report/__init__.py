"""Pages and folders of files: what is computed can be tested without drawing, what is drawn computes nothing.

`plan` collects what is told about a plan; `organiser_page` and `member_page` tell it; `files` writes folders that are
whole or as they were before.
"""
