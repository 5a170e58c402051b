"""What a study needs and takes on devices that are not there, from their compilers."""
