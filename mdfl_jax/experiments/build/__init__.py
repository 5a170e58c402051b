"""From a configuration to the three nouns: task, network, algorithm, and their traced numbers."""
