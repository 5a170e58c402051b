"""The formats of traces. A file of this folder registers those that it reads in `TRACE_FORMATS`."""
