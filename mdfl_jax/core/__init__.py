"""The ground of the package: nouns, numbers, registries, links, random keys, devices and errors."""
