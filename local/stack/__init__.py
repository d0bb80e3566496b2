"""Everything on one machine: broker, storage and host as child processes under one roof."""
