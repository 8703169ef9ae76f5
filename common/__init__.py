"""Small mechanics that several rooms use: files, locks, processes, text. Knows no room."""
