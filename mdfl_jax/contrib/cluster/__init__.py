"""Workers that one command starts: on this machine (`crew`), as jobs of SLURM, or as tasks of Ray."""
