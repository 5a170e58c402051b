"""The files of studies: written whole or not at all, with checksums, and read with bounds on their size."""
