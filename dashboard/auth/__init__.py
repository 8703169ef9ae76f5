"""Who may look and who may triage: decided at the door, and once more where something is written."""
