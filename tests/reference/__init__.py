"""The slow simulator: what mdfl_jax computes, in NumPy and float64, with loops over clients, written from the papers.

It composes as the nouns do, one module a noun: `world` says where clients are and whom they could hear, `wrappers` who
takes part, `task` what they learn from, `algorithms` what they compute and send, `compressors`, `attacks` and
`aggregation` what becomes of a message, `costs` what it takes, and `simulator` puts a round together. None of these
modules imports JAX or mdfl_jax. They read a configuration as a dictionary of values by path.

What is drawn at random is taken from the fast simulator: movement from its states, all else from its streams of keys
(`draws`). So all that follows from the draws is compared exactly. `fast` runs mdfl_jax, `configurations` draws, `judge`
compares, and `refusals` is the table of the pairs that mdfl_jax refuses.

`python -m tests.reference --minutes=30 --grow` draws for half an hour and adds to the matrix of the pairs it has seen.
"""
