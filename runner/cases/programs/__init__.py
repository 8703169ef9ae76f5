"""Programs rather than models: function transforms and modes, loading of data, the start of a process."""
