"""What results say beside numbers: effort, side effects, how independent the audit was."""
