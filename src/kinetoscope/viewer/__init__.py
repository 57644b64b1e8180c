"""The viewer: a trace in the browser, served from this machine to this machine."""
