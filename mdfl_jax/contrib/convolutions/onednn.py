"""Convolutions by oneDNN, which compiled programs on a CPU call through XLA's foreign functions.

The library is optional: ``pip install 'mdfl_jax[onednn]'``, for Linux on x86-64. Nothing is compiled for it: XLA calls
handlers in Python, which call the library's C interface through `ctypes`. A call takes some ten microseconds if no
other Python code runs, and devices compute side by side, since `ctypes` lets go of the interpreter while the library
computes.

For the arrays of each shape and processor, oneDNN has a format that it computes best. Our arrays are packed into it:
the input once for the convolution and for the gradient of the kernel, and the gradient of the result once for both
gradients. Results are unpacked from memory that each device keeps for each shape, which no plan of the memory counts;
as values of the program they would take rounds up to a fifth longer. Models that are mapped together are computed one
after another. Results agree with the other forms to about 1e-6.
"""

import ctypes
import importlib.metadata
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.devices import backend, computes_512_bits, num_cores
from mdfl_jax.core.errors import UserError
from mdfl_jax.models.conv import FORMS, SAMPLES, ConvForm

PACKAGE, FILE, OPENMP = "onednn-cpu-gomp", "libdnnl.so.3", "libgomp.so.1"
INSTALL = "pip install 'mdfl_jax[onednn]'"
FLOPS = 2**24  # of a forward pass, from which on oneDNN is faster where it suits; measured in benchmarks/tried.md
# What an operation takes and makes: x [C, H, W, B], a kernel [k, k, C, O] and y [O, H, W, B], or their gradients.
OPERATIONS = {
    "pack_x": ("x", "packed_x"),
    "pack_y": ("y", "packed_y"),
    "forward": ("packed_x", "kernel", "y"),
    "backward_data": ("kernel", "packed_y", "x"),
    "backward_weights": ("packed_x", "packed_y", "kernel"),
}

# oneDNN's numbers (dnnl_types.h, version 3).
FLOAT32, ANY_FORMAT, TRAINING, DIRECT, IN_ORDER, CPU, USERS_SCRATCHPAD = 3, 1, 64, 1, 1, 1, 1
FROM, TO, SCRATCHPAD = 1, 17, 80  # arguments: of a reorder, and of all others
ARGUMENTS = {
    "forward": {"x": 1, "kernel": 33, "y": 17},
    "backward_data": {"x": 129, "kernel": 33, "y": 145},
    "backward_weights": {"x": 1, "kernel": 161, "y": 145},
}
QUERIES = {1: 129, 129: 130, 33: 131, 161: 132, 17: 133, 145: 134, SCRATCHPAD: 136}  # of the format of an argument
ALLOCATE = c_void_p(-1)
METADATA, INTERNAL = 1, 13  # XLA's: the extension of a call that asks for the version, and the code of an error


class _Extension(Structure):
    _fields_ = (("size", c_size_t), ("type", c_int), ("next", c_void_p))


class _Version(Structure):
    _fields_ = (("size", c_size_t), ("extension", c_void_p), ("major", c_int), ("minor", c_int))


class _Metadata(Structure):
    _fields_ = (("size", c_size_t), ("version", _Version))


class _MetadataExtension(Structure):
    _fields_ = (("base", _Extension), ("metadata", POINTER(_Metadata)))


class _Error(Structure):
    _fields_ = (("size", c_size_t), ("extension", c_void_p), ("message", c_char_p), ("code", c_int))


class _Api(Structure):
    _fields_ = (
        ("size", c_size_t),
        ("extension", c_void_p),
        ("version", _Version),
        ("internal", c_void_p),
        ("create_error", ctypes.CFUNCTYPE(c_void_p, POINTER(_Error))),
    )


class _Buffer(Structure):
    _fields_ = (
        ("size", c_size_t),
        ("extension", c_void_p),
        ("dtype", c_int),
        ("data", c_void_p),
        ("rank", c_int64),
        ("dims", POINTER(c_int64)),
    )


class _Buffers(Structure):
    _fields_ = (
        ("size", c_size_t),
        ("extension", c_void_p),
        ("count", c_int64),
        ("types", c_void_p),
        ("items", POINTER(POINTER(_Buffer))),
    )


class _Call(Structure):
    _fields_ = (
        ("size", c_size_t),
        ("extension", POINTER(_MetadataExtension)),
        ("api", POINTER(_Api)),
        ("context", c_void_p),
        ("stage", c_int),
        ("arguments", _Buffers),
        ("results", _Buffers),
    )


class _Argument(Structure):
    _fields_ = (("index", c_int), ("memory", c_void_p))


class _Library:
    """The loaded library. ``library("name", ...)`` calls the C function ``dnnl_name``.

    Raises:
      OSError: if the package is not installed, or the library or OpenMP cannot be loaded.
      RuntimeError, AttributeError: if the library does not work here, or is another version.
    """

    def __init__(self) -> None:
        try:
            files = importlib.metadata.files(PACKAGE) or []
        except importlib.metadata.PackageNotFoundError:
            raise OSError(f"the package {PACKAGE} is not installed: {INSTALL}") from None
        found = [file for file in files if file.name == FILE]
        if not found:
            raise OSError(f"the package {PACKAGE} has no {FILE}")
        self._openmp, self._dnnl = ctypes.CDLL(OPENMP), ctypes.CDLL(str(found[0].locate()))
        self._dnnl.dnnl_memory_set_data_handle.argtypes = (c_void_p, c_void_p)
        self._dnnl.dnnl_primitive_desc_query_md.restype = c_void_p
        self._dnnl.dnnl_memory_desc_get_size.restype = c_size_t
        self.engine = self.make("engine_create", CPU, c_size_t(0))
        self.own_scratchpad = self.make("primitive_attr_create")
        self("primitive_attr_set_scratchpad_mode", self.own_scratchpad, USERS_SCRATCHPAD)

    def __call__(self, name: str, *args: Any) -> None:
        """Call a function that returns a status.

        Raises:
          RuntimeError: if it fails.
        """
        status = getattr(self._dnnl, f"dnnl_{name}")(*args)
        if status:
            raise RuntimeError(f"oneDNN's dnnl_{name} failed with status {status}")

    def make(self, name: str, *args: Any) -> c_void_p:
        """Call a function that makes an object, and return it."""
        made = c_void_p()
        self(name, byref(made), *args)
        return made

    def argument_format(self, description: c_void_p, argument: int) -> c_void_p:
        """Return the format of an argument of a primitive, from the primitive's description."""
        return c_void_p(self._dnnl.dnnl_primitive_desc_query_md(description, QUERIES[argument], 0))

    def size(self, array_format: c_void_p) -> int:
        """Return the bytes of an array in a format."""
        return int(self._dnnl.dnnl_memory_desc_get_size(array_format))

    def equal(self, one: c_void_p, other: c_void_p) -> bool:
        """Tell whether two formats are the same."""
        return bool(self._dnnl.dnnl_memory_desc_equal(one, other))

    def memory(self, array_format: c_void_p, data: Any = ALLOCATE) -> c_void_p:
        """Return an array in a format: a new one, or one whose address is set later (``data`` None)."""
        return self.make("memory_create", array_format, self.engine, data)

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Let what this thread describes and computes use one thread: devices compute side by side already."""
        before = self._openmp.omp_get_max_threads()
        self._openmp.omp_set_num_threads(1)
        try:
            yield
        finally:
            self._openmp.omp_set_num_threads(before)


class ConvShape(NamedTuple):
    """The numbers of a convolution of stride one.

    Attributes:
      channels, height, width, samples: C, H, W, B of x.
      size: k.
      features: O.
    """

    channels: int
    height: int
    width: int
    samples: int
    size: int
    features: int


class _Step(NamedTuple):
    """A primitive of oneDNN with its arguments, an array of `_Argument`."""

    primitive: c_void_p
    arguments: Any


class Convolution:
    """The formats and descriptions of a convolution and its gradients, for one shape.

    Args:
      library: the library.
      shape: the shape.

    Attributes:
      formats: the formats of the arrays of `OPERATIONS`.
      descriptions: those of oneDNN's three primitives.
    """

    def __init__(self, library: _Library, shape: ConvShape):
        self.library = library
        channels, height, width, samples, size, features = shape
        apart = (1, height * width * samples, width * samples, samples)  # of samples, channels, rows and columns
        axes = {
            "x": ((samples, channels, height, width), apart),
            "kernel": (
                (features, channels, size, size),
                (1, features, size * channels * features, channels * features),
            ),
            "y": ((samples, features, height, width), apart),
        }  # oneDNN's order of the axes, and the distances of our elements
        make, engine, attributes = library.make, library.engine, library.own_scratchpad
        x, kernel, y = (
            make("memory_desc_create_with_tag", 4, _longs(sizes), FLOAT32, ANY_FORMAT) for sizes, _ in axes.values()
        )
        steps = *(_longs((number,) * 2) for number in (1, 0, size // 2, size // 2)), attributes
        name = "convolution_{}_primitive_desc_create"
        forward = make(name.format("forward"), engine, TRAINING, DIRECT, x, kernel, None, y, *steps)
        hinted = *steps[:-1], forward, attributes
        self.descriptions = {
            "forward": forward,
            "backward_data": make(name.format("backward_data"), engine, DIRECT, x, kernel, y, *hinted),
            "backward_weights": make(name.format("backward_weights"), engine, DIRECT, x, kernel, None, y, *hinted),
        }
        self.formats = {
            array: make("memory_desc_create_with_strides", 4, _longs(sizes), FLOAT32, _longs(strides))
            for array, (sizes, strides) in axes.items()
        }
        for array in ("x", "y"):
            self.formats[f"packed_{array}"] = library.argument_format(forward, ARGUMENTS["forward"][array])

    def plan(self, operation: str) -> "Plan":
        """Return the steps of one of `OPERATIONS`, with memory of their own."""
        library, names = self.library, OPERATIONS[operation]
        ours = [library.memory(self.formats[name], None) for name in names]
        if operation not in ARGUMENTS:
            source, target = ((self.formats[name], memory) for name, memory in zip(names, ours))
            return Plan(library, ours, [self._reorder(source, target)])
        arguments, description = dict[int, c_void_p](), self.descriptions[operation]
        before, after = list[_Step](), list[_Step]()
        for name, memory in zip(names, ours):
            array_format, index = self.formats[name], ARGUMENTS[operation][name.removeprefix("packed_")]
            theirs = library.argument_format(description, index)
            if library.equal(theirs, array_format):
                arguments[index] = memory
                continue
            arguments[index] = library.memory(theirs)
            array, copy = (array_format, memory), (theirs, arguments[index])
            if name == names[-1]:
                after.append(self._reorder(copy, array))
            else:
                before.append(self._reorder(array, copy))
        arguments[SCRATCHPAD] = library.memory(library.argument_format(description, SCRATCHPAD))
        return Plan(library, ours, [*before, self._step(description, arguments), *after])

    def _reorder(self, source: tuple[c_void_p, c_void_p], target: tuple[c_void_p, c_void_p]) -> _Step:
        """Return the step that copies an array (format, memory) to another one."""
        engine = self.library.engine
        description = self.library.make("reorder_primitive_desc_create", source[0], engine, target[0], engine, None)
        return self._step(description, {FROM: source[1], TO: target[1]})

    def _step(self, description: c_void_p, arguments: Mapping[int, c_void_p]) -> _Step:
        listed = (_Argument * len(arguments))(*(_Argument(index, memory) for index, memory in arguments.items()))
        return _Step(self.library.make("primitive_create", description), listed)


class Plan:
    """The steps of an operation, and the memory that they work in. One thread at a time may use it."""

    def __init__(self, library: _Library, arrays: Sequence[c_void_p], steps: Sequence[_Step]):
        self._library, self._arrays, self._steps = library, arrays, steps
        self._stream = library.make("stream_create", library.engine, IN_ORDER)

    def compute(self, models: Iterator[Sequence[int]]) -> None:
        """Compute the result of one model after another.

        Args:
          models: the addresses of the inputs and of the result of each model.
        """
        library = self._library
        for addresses in models:
            for memory, address in zip(self._arrays, addresses):
                library("memory_set_data_handle", memory, address)
            for step in self._steps:
                library("primitive_execute", step.primitive, self._stream, len(step.arguments), step.arguments)


def _longs(numbers: Sequence[int]) -> Any:
    return (c_int64 * 12)(*numbers)  # DNNL_MAX_NDIMS


@cache
def _load() -> _Library | str:
    """Return the library, or why it is not there."""
    try:
        return _Library()
    except (OSError, RuntimeError, AttributeError) as error:
        return str(error)


def why_absent() -> str:
    """Return why oneDNN cannot be used here, or nothing if it can."""
    loaded = _load()
    return loaded if isinstance(loaded, str) else ""


def pays(kernel_shape: Sequence[int], pixels: int, few_samples: bool) -> bool:
    """Tell whether this is the fastest form on a CPU, for stride one, sizes 3 to 7 and float32, by what was measured.

    This form is the fastest for layers with enough work and one to three input channels. It is also the fastest for a
    multiple of 16 input channels, if the processor computes 512 bits at once or there are few samples. It is not used
    by a process with one device and several cores: the other forms use all of them, and this form one.

    Args:
      kernel_shape: (k, k, C, O).
      pixels: H * W * B.
      few_samples: whether there are fewer samples than minimal filtering in both directions needs to be fast.
    """
    channels = kernel_shape[2]
    if 2 * math.prod(kernel_shape) * pixels < FLOPS or why_absent():
        return False
    if jax.local_device_count() == 1 and num_cores() > 1:
        return False
    return channels <= 3 or (channels % 16 == 0 and (few_samples or computes_512_bits()))


@cache
def _convolution(shape: ConvShape) -> Convolution:
    """Return the convolution of a shape, whose operations XLA knows from then on."""
    library = _load()
    assert isinstance(library, _Library)
    with library.one_thread():
        made = Convolution(library, shape)
    for operation in OPERATIONS:
        handler = _handler(made, operation)
        _HANDLERS.append(handler)
        jax.ffi.register_ffi_target(_target(operation, shape), jax.ffi.pycapsule(handler), platform="cpu")
    _keep_client()
    return made


@cache
def _keep_client() -> None:
    """Keep JAX's client for CPUs to the end of the process.

    An interpreter that ends destroys it, which waits for the programs that still run. These would wait for the
    interpreter.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(jax.devices("cpu")[0].client))


_HANDLERS: list[Any] = []  # kept, since XLA has only their addresses


def _target(operation: str, shape: ConvShape) -> str:
    return "_".join(("mdfl_jax_onednn", operation, *map(str, shape)))


def _handler(convolution: Convolution, operation: str) -> Any:
    """Return the function that XLA calls for an operation."""
    library, free = convolution.library, list[Plan]()
    rank = 1 if OPERATIONS[operation][-1].startswith("packed") else 4  # of the result for one model

    def run(call: _Call) -> None:
        arguments = call.arguments
        buffers = [*(arguments.items[i].contents for i in range(arguments.count)), call.results.items[0].contents]
        with library.one_thread():
            try:
                plan = free.pop()  # a plan that no other thread has
            except IndexError:
                plan = convolution.plan(operation)
            plan.compute(_models(buffers, rank))
        free.append(plan)

    def handle(pointer: Any) -> int | None:
        call = pointer.contents
        if call.extension and call.extension.contents.base.type == METADATA:
            version, current = call.extension.contents.metadata.contents.version, call.api.contents.version
            version.major, version.minor = 0, current.minor if current.major == 0 else 0
            return None
        # What is raised here, an interrupt too, would be lost, and the result would be taken for computed.
        try:
            run(call)
        except BaseException as error:
            failed = _Error(ctypes.sizeof(_Error), None, f"{type(error).__name__}: {error}".encode(), INTERNAL)
            made: int = call.api.contents.create_error(byref(failed))
            return made
        return None

    return ctypes.CFUNCTYPE(c_void_p, POINTER(_Call))(handle)


def _models(buffers: Sequence[_Buffer], rank: int) -> Iterator[Sequence[int]]:
    """Yield the addresses of the arrays of each model.

    Args:
      buffers: the inputs, and the result last. Their first axes are those of the models; an axis along which an input
        is the same for all models has one element.
      rank: the axes of the result for one model.
    """
    axes = [buffer.dims[: buffer.rank] for buffer in buffers]
    starts = [buffer.data for buffer in buffers]
    outer = axes[-1][:-rank]
    if not outer:
        yield starts
        return
    strides = []
    for sizes in axes:
        bytes_after = (4 * math.prod(sizes[i + 1 :]) for i in range(len(outer)))
        strides.append([stride if count > 1 else 0 for count, stride in zip(sizes, bytes_after)])
    for place in itertools.product(*map(range, outer)):
        yield [start + sum(map(int.__mul__, place, apart)) for start, apart in zip(starts, strides)]


def _call(operation: str, shape: ConvShape, *inputs: jax.Array) -> jax.Array:
    """Compute an operation on the arrays of one model; `jax.vmap` gives it those of several."""
    made, name = _convolution(shape), OPERATIONS[operation][-1]
    channels, height, width, samples, size, features = shape
    results: dict[str, Sequence[int]] = {
        "x": (channels, height, width, samples),
        "kernel": (size, size, channels, features),
        "y": (features, height, width, samples),
    }
    packed = made.library.size(made.formats[name]) // 4
    result = jax.ShapeDtypeStruct(results.get(name, (packed,)), jnp.float32)
    return jax.ffi.ffi_call(_target(operation, shape), result, vmap_method="expand_dims")(*inputs)


def _shape(images: jax.Array, kernel: jax.Array) -> ConvShape:
    """Return the shape of a convolution, from its input or its result and its kernel."""
    _, height, width, samples = images.shape
    size, _, channels, features = kernel.shape
    return ConvShape(channels, height, width, samples, size, features)


def forward(x: jax.Array, kernel: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Convolve with stride one and zero padding of k // 2.

    Args:
      x: [C, H, W, B] float32.
      kernel: [k, k, C, O] float32, k odd.

    Returns:
      The result [O, H, W, B], and x as `gradients` takes it.

    Raises:
      UserError: if the target is no CPU, x is not in float32, or the library is not here.
      ValueError: for arrays that do not match; the library would read what lies behind them.
    """
    reasons = {
        f"on a {backend()}, as oneDNN's convolutions are for CPUs": backend() != "cpu",
        f"in {x.dtype}, as oneDNN's convolutions are in float32": x.dtype != jnp.float32,
        f"here: {why_absent()}": bool(why_absent()),
    }
    for reason in (reason for reason, holds in reasons.items() if holds):
        raise UserError(f"engine.convolution is onednn, which is not possible {reason}")
    size, width, channels, _ = kernel.shape
    if (size % 2, width, channels, kernel.dtype) != (1, size, x.shape[0], x.dtype):
        raise ValueError(f"x {x.dtype}{[*x.shape]} and a kernel {kernel.dtype}{[*kernel.shape]} do not match")
    shape = _shape(x, kernel)
    packed = _call("pack_x", shape, x)
    return _call("forward", shape, packed, kernel), packed


def gradients(packed: jax.Array, kernel: jax.Array, dy: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the gradients of x and of the kernel.

    Args:
      packed: x, from `forward`.
      kernel: [k, k, C, O].
      dy: the gradient of the result, [O, H, W, B].
    """
    shape = _shape(dy, kernel)
    packed_dy = _call("pack_y", shape, dy)
    dx = _call("backward_data", shape, kernel, packed_dy)
    return dx, _call("backward_weights", shape, packed, packed_dy)


FORMS.register("onednn", doc="That of oneDNN, on a CPU.")(
    ConvForm(
        lambda x, kernel, _: forward(x, kernel),
        lambda *args: gradients(*args[:-1]),
        of_stride_one=True,
        of_float32=True,
        pays=lambda kernel, extent: pays(kernel, math.prod(extent), few_samples=extent[2] < SAMPLES),
    )
)
