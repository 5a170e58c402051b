"""oneDNN's convolutions inside compiled programs: stacked models, devices side by side, and what is refused."""

import importlib.metadata
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from mdfl_jax.contrib.convolutions import onednn
from mdfl_jax.core.errors import UserError
from mdfl_jax.models import conv
from mdfl_jax.models.conv import convolution

installed = pytest.mark.skipif(bool(onednn.why_absent()), reason=f"oneDNN is not here: {onednn.why_absent()}")
KEY = jax.random.key(0)


def models(*before):
    """Inputs and kernels of stacked models."""
    x = jax.random.normal(KEY, (*before, 3, 6, 7, 4))
    return x, jax.random.normal(KEY, (*before, 3, 3, 3, 16))


def value_and_gradients(form):
    return jax.value_and_grad(lambda x, kernel: jnp.sum(jnp.sin(convolution(x, kernel, form))), (0, 1))


def assert_equal(ours, theirs):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5 * float(jnp.max(jnp.abs(b))))


@installed
@pytest.mark.parametrize("axes", [(0, 0), (None, 0)], ids=["both", "one input"])
def test_models_that_are_mapped_together_twice(axes):
    x, kernel = models(2, 3)
    arguments = [leaf if axis == 0 else leaf[:, 0] for leaf, axis in zip((x, kernel), axes)]
    mapped = [jax.jit(jax.vmap(jax.vmap(value_and_gradients(form), axes))) for form in ("onednn", "library")]
    assert_equal(*(function(*arguments) for function in mapped))


@installed
def test_devices_that_compute_side_by_side_in_a_loop_and_the_same_bits_each_time():
    x, kernel = models(2, 40)

    def of_device(form):
        def step(sums, of):
            return jax.tree.map(jnp.add, sums, jax.remat(value_and_gradients(form))(*of)), None

        start = jax.eval_shape(value_and_gradients(form), x[0, 0], kernel[0, 0])
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), start)
        mesh, split = Mesh(np.array(jax.devices()[:2]), ("device",)), PartitionSpec("device")

        def one(x, kernel):
            return jax.tree.map(lambda leaf: leaf[None], jax.lax.scan(step, zeros, (x[0], kernel[0]))[0])

        return jax.jit(jax.shard_map(one, mesh=mesh, in_specs=split, out_specs=split, check_vma=False))

    ours = of_device("onednn")
    first = ours(x, kernel)
    assert_equal(first, of_device("library")(x, kernel))
    jax.tree.map(np.testing.assert_array_equal, first, ours(x, kernel))


@installed
def test_what_fails_in_the_library_is_an_error_and_no_result(monkeypatch):
    shape = onednn.ConvShape(3, 6, 7, 4, 3, 9)  # of no other test
    onednn._convolution(shape)
    x, kernel = models()
    monkeypatch.setattr(onednn.Convolution, "plan", lambda *_: 1 / 0)
    with pytest.raises(jax.errors.JaxRuntimeError, match="ZeroDivisionError: division by zero"):
        jax.block_until_ready(jax.jit(convolution, static_argnums=2)(x, kernel[..., :9], "onednn"))


@installed
def test_arrays_that_do_not_match_are_refused_before_the_library_reads_them():
    x, kernel = models()
    for wrong in (kernel[:, :, :2], jnp.concatenate([kernel] * 2, 2), kernel.astype(jnp.bfloat16), kernel[:2, :2]):
        with pytest.raises(ValueError, match="do not match"):
            convolution(x, wrong, "onednn")


@pytest.mark.long
@installed
def test_another_process_loads_the_compiled_program_and_ends_while_one_still_runs(tmp_path):
    code = """if True:
        import sys, jax, jax.numpy as jnp
        from mdfl_jax.models.conv import convolution
        jax.config.update("jax_compilation_cache_dir", sys.argv[1])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        hits = []
        jax.monitoring.register_event_listener(lambda name, **_: hits.append(name.endswith("cache_hits")))
        x = jnp.arange(3 * 4 * 5 * 2.0).reshape(3, 4, 5, 2)
        print(float(jnp.sum(jax.jit(lambda x: convolution(x, jnp.ones((3, 3, 3, 16)), "onednn"))(x))), sum(hits) > 0)
        x, kernel = jnp.ones((16, 32, 32, 32)), jnp.ones((3, 3, 16, 16))
        jax.jit(lambda x: jax.lax.fori_loop(0, 1000, lambda _, x: convolution(x, kernel, "onednn") / 144, x))(x)
    """
    run, more = [sys.executable, "-c", code, str(tmp_path)], {"text": True, "check": True, "timeout": 120}
    said = [subprocess.run(run, capture_output=True, env=os.environ, **more).stdout for _ in range(2)]
    (value, first), (same, second) = (text.split() for text in said)
    assert value == same
    assert (first, second) == ("False", "True")


def test_without_the_package_there_are_the_other_forms_and_a_line_that_says_how_to_install_it(monkeypatch):
    def files(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", files)
    onednn._load.cache_clear()
    try:
        assert conv.default_form((3, 3, 3, 32), jnp.dtype("float32"), extent=(32, 32, 32)) == "filtering"
        with pytest.raises(UserError, match=r"is onednn.*onednn-cpu-gomp is not installed: pip install"):
            convolution(*models(), "onednn")
    finally:
        onednn._load.cache_clear()
