"""Who may read and who may triage: decided by the middleware, and once more where something is written."""
