"""Wrong configurations, each told in one line before a study runs: fields, sweeps, files, and what cannot go together.

The fields are given as texts (tests/tables.py), and the study is the tiny one of tests/tiny.py.
"""

from types import MappingProxyType

import numpy as np
import pytest
from ml_collections import ConfigDict
from oracles.resnet import random_tensors
from small import told
from tables import cases, with_fields

from mdfl_jax.study import make_study
from tests.reference import graphs as oracle

FIELDS = """
rounds=5 => rounds is 5; it must be a multiple of eval_every, which is 2
name= => name is ''; it must be a file name
name=a/b => name is 'a/b'; it must be a file name of at most 200 bytes in UTF-8
stop_std=0.1 => stop_std is 0.1; it must be 0 unless data.name is one of
engine.precision=float64 => engine.precision is float64; it must be float32, tensorfloat32 or bfloat16 with data
network.radius=1e308 => network.radius is 1e+308, inf in single precision; it must be inf, or below 3.4e38
network.radius=abc => network.radius is 'abc'; it must be a number
engine.record_positions=2 => engine.record_positions is '2'; it must be true or false
model.widths=a => model.widths is 'a'; it must be whole numbers, as in 16x32
model.kernel=2 => model.kernel is 2; it must be odd
data.name=digts => unknown data.name 'digts' (did you mean 'digits'?); known: digits
nope=1 => unknown config key 'nope'; among the
radius=1 => (did you mean 'network.radius'?)
network=3 => network is a section; set its fields, as in network.FIELD=VALUE
network.tell_met=true => network.tell_met is called motion.tell_met now
network.relays=6 => network.relays is 6; it must be at most 5: network.num_clients is 6
engine.convolution=onednn | engine.precision=bfloat16 => engine.convolution is onednn; it must be another form with
engine.links=lists | network.graph=star => engine.links is lists; network.graph=star is a matrix,
"""
STREAMS = """
vary=placment => vary is 'placment': unknown stream 'placment' (did you mean 'placement'?); known:
vary= => vary is '', which names no stream; known: all, all but STREAM, partition,
vary=init init => names a stream twice
held_seed=3 => held_seed is 3; it must be 0 where vary is all
"""
SWEEPS = """
sweep=network.mobility => sweep: 'network.mobility' is not of the form field=value,value
sweep=;; => sweep is ';;'; it must be of the form
sweep=network.mobility=static,dcn => sweep: network.mobility: unknown mobility 'dcn' (did you mean 'dcm'?); known:
sweep=network.mobility=static,static => sweep: network.mobility holds a value twice: static,static
sweep=network.mobility=static; network.mobility=dcm => sweep: network.mobility is given twice
sweep=network.radius+network.radius=1+1 => sweep: network.radius is given twice
sweep=network.num_mobile+network.radius=1 => takes 2 values tied by '+', not '1'
sweep=network.num_mobile=1,9 => sweep, point 'num_mobile=9': network.num_mobile is 9; it must be at most
sweep=seeds=1,2 => sweep: seeds cannot be an axis; known axes: adapters.alpha, adapters.on,
& sweep=network.mobility=static,dcm
baseline=network.mobility => baseline is 'network.mobility'; it must be of the form field=value
baseline=seeds=3 => baseline: seeds cannot be an axis
& sweep=algorithm.lr=0.1,0.2 | select=algorithm.lr
data.validation=0 => select is 'algorithm.lr', which needs validation samples; data.validation is 0
data.validation=20 | baseline=algorithm.lr=0.1 => baseline is 'algorithm.lr=0.1'; it must be empty where select choose
"""
LABELS = """
& sweep=network.mobility=dcm,random_movement | data.alpha=0.5
labels=dcn=DCM => labels: unknown value, or field of the sweep, 'dcn' (did you mean 'dcm'?)
labels=network.mobilty=rule => labels: unknown value, or field of the sweep, 'network.mobilty' (did you mean 'netw
labels=network.mobility=dam=DAM => labels: unknown value, or field of the sweep, 'network.mobility=dam'
"""
KEEPING = """
save=last => save is 'last'; it must be empty, final, or every:K
save=every:3 => save is 'every:3'; K must be a multiple of eval_every, which is 2
save=every:6 => K must be at most rounds, which is 4, or nothing would be saved
"""
EVALUATION = """
eval_clients=7 => eval_clients is 7; it must be 0 (all) or 4 to 6
eval_samples=61 => eval_samples is 61; it must be 0 (all) or 20 to 60
eval_clients=5 | judged=global => eval_clients is 5; it must be 0 with judged=global
eval_clients=5 | metrics=personal_accuracy => must be 0 (all) with the metric 'personal_accuracy'
"""
SYNTHETIC = """
& data.name=synthetic:linear | stop_std=0.001 | sweep=algorithm.lr=0.05,0.1 | select=algorithm.lr
select=algorithm.rho => axis of numbers
engine.precision=bfloat16 => float32 or float64
data.name=digits | stop_std=0 | data.validation=5000 => data.validation is 5000
"""
ALGORITHMS = """
algorithm.compressor=top_k => algorithm.compressor is top_k; it must be '': dpsgd sends nothing compressed
algorithm.name=choco | algorithm.optimizer=adam => algorithm.optimizer is adam; it must be 'sgd': choco has its step
algorithm.participation=0.5 | network.mixing=max_degree => network.mixing is max_degree; it must be metropolis_hastings
algorithm.name=pame | algorithm.period_min=5 | algorithm.period_max=4 => algorithm.period_min is 5; it must be at most
algorithm.name=fedmobile => fedmobile needs meetings with a server
algorithm.name=nids | network.graph=exponential => nids needs symmetric mixing weights, which network.graph=exponential
"""
PRESENCE = """
presence.name=poisson | presence.at_start=7 => presence.at_start is 7; it must be at most network.num_clients, which is
presence.name=table => presence.file is ''; it must be a file of lines client,from,to: presence.name is table
presence.name=table | presence.file=none.csv => presence.file 'none.csv': there is no such file
presence.name=trace | trace.gaps=hold => presence.name is trace; it must be another one: trace.gaps is
presence.name=trace | trace.gaps=absent => presence.name is trace; it must be another one: network.mobility random_m
presence.name=markov | algorithm.name=kgt | presence.newcomers=initial => presence.newcomers is initial; it must be kept
"""
CLOCKS = """
clock.joins=at_once => clock.joins is at_once; it must be empty: cost.seconds_per_sample is 0, so that work ta
& cost.seconds_per_sample=0.125 | algorithm.batch_size=8 | clock.joins=in_contact
cost.deadline=3 => cost.deadline is 3.0; it must be inf with clock.joins in_contact: nobody waits
motion.dt=2 => cost.seconds_per_sample is 0.125; it must be at least 0.25: the fastest client's work must take a slot of
"""
GRAPHS = """
network.graph=file => graph.file is ''; it must be a file: network.graph is file
network.graph=ring | graph.file=x.txt => graph.file is 'x.txt'; nothing reads it: network.graph is ring
network.graph=torus => network.num_clients is 6; a torus needs
network.graph=random_regular | graph.degree=6 => graph.degree is 6; it must be less than
network.graph=ring | network.mixing=speed_aware => network.mixing is speed_aware; it must be a rule without speeds: a gr
& network.graph=file
graph.file=absent => graph.file: 'absent': there is no such file
graph.file=loop.txt => graph.file: 'loop.txt': client 2 has a link to itself
graph.file=half.txt => line 1: client 1.5 is unknown
graph.file=oblong.csv => 6 rows of 5 columns; a matrix must be square
graph.file=apart.npy => the graph is not connected: 2 parts, one of them around client 0, 1, 2; graph.allow_disconnected
graph.file=arrow.npy => client 0 hears 1 and not the other way round; graph.directed takes that
graph.file=rows.npy => the weights of client 0 sum to 0.8 in matrix 0; rows must sum to 1
graph.file=nan.npy => a weight is not finite
graph.file=half.npy | algorithm.participation=0.5 => graph.file 'half.npy' has weights; algorithm.participation must
graph.file=two.npz => it must hold one array, and holds 2 (a, b)
graph.file=cut.npz => cannot be read
"""
MOTIONS = """
& network.mobility=random_walk
motion.up=0.5 => sum to 1.25 (up 0.5, down 0.25, left 0.25, right 0.25); probabilities must
motion.speed_max=5000 => motion.speed_max is 5000; the fastest client would meet 35 walls
& network.mobility=random_waypoint
motion.speed_min=60 => motion.speed_min is 60.0; it must be at most motion.speed_max, which is 50.0
& network.mobility=levy_walk
motion.flight_min=600 => motion.flight_min is 600.0; it must be at most motion.flight_max
motion.pause_max=1 => motion.pause_min is 0.0; with pauses, levy_walk needs it greater
& network.mobility=manhattan
motion.block=2 => would pass 25 crossings a round
& network.mobility=patrol
motion.loop=1,2; 3 => motion.loop: '3' is not of the form x,y
motion.loop=1,2; 1,2 => it must hold two different waypoints or more
"""
TRACES = """
network.mobility=trace => trace.file is ''; it must be a file: network.mobility trace follows it
network.mobility=dcm | trace.file=town.csv => nothing reads it: with network.mobility dcm clients move
& network.mobility=trace | trace.file=town.csv
trace.file=/nope.csv => trace.file: trace '/nope.csv': there is no such file
trace.streets=/nope.net.xml => trace.streets: trace '/nope.net.xml': there is no such file
trace.file=list.csv => holds a contact list; network.mobility is trace, and network.world must be contacts
network.num_clients=9 => network.num_clients is 9; 'town.csv' has 8 vehicles
rounds=8 => lasts 6 s: 6 rounds of motion.dt 1, and rounds is 8; trace.at_end=hold or trace.at_end=repeat
trace.start=3 => 3 from trace.start 3 on: 3 rounds of motion.dt 1, and rounds is 4
trace.format=csvv => did you mean 'csv'?
sweep=network.mobility=trace,contacts => holds places; network.mobility is contacts
& network.mobility=contacts | trace.file=list.csv
network.num_clients=5 => names client 5; there are 5 clients, 0 to 4
cost.short_contact=drop => cost.short_contact is drop; it must be ignore with 'list.csv': a list of rounds does not say
trace.times=5 => trace.times is '5'; it must be begin,end in seconds of the file, or dates with a time, such as
trace.types=car => trace.types names 'car'; it does not say what its nodes are
"""
SERVERS = """
server.pattern=random | server.gap_min=60 => server.gap_min is 60; it must be at most server.gap_max, which is 50
server.file=meetings.csv => server.file is 'meetings.csv'; it must be empty unless server.pattern is table
& server.pattern=roadside
server.units= => server.units is ''; it must be a place or more, 'x,y; x,y; ...'
server.units=1;2 => server.units: '1' is not of the form x,y
server.units=2,6 => server.units: the place 2,6 is outside of the area 1..5 x 1..5
& algorithm.name=async_fl | server.pattern=table
server.file= => server.file is ''; it must be a file of lines client,slot: server.pattern is table
server.file=none.csv => server.file 'none.csv': there is no such file
server.file=soon.csv => line 1: '0,soon' is not client,slot
server.file=head.csv => holds no meeting
& algorithm.name=fedmobile | server.pattern=fixed
cost.short_contact=drop => cost.short_contact is drop; it must be ignore with server.pattern fixed: the durations of
"""
COSTS = """
cost.speeds=none.txt => cost.speeds 'none.txt': there is no such file
cost.speeds=speeds.txt | cost.speed_spread=0.5 => cost.speed_spread is 0.5; it must be 0 where cost.speeds names a file
cost.speeds=speeds_2.txt => cost.speeds 'speeds_2.txt' holds 2 numbers; network.num_clients is 6
cost.speeds=speeds_0.txt => 0 is no speed; it must be greater than 0 and finite
cost.speeds=speeds_1e39.txt => 1e39 is no speed
& cost.short_contact=largest
algorithm.name=nids => cost.short_contact is largest; it must be another one: algorithm.name nids needs whole models
"""
RADIOS = """
radio.fading=rayleigh => radio.fading is rayleigh; it must be empty with radio.name disc, which knows no strength of a
cost.short_contact=next_contact | engine.links=lists => engine.links is lists; it must be dense or auto: cost.short
& radio.name=log_distance
radio.name=air_to_ground | radio.height=2 | radio.height_spread=0.5 => radio.height is 2; the lowest client in the air,
radio.fading=nakagami | radio.fading_shape=0.7 => radio.fading_shape is 0.7; it must be a multiple of 0.5
radio.name=log_distance | radio.rate=shannon | radio.width=10 => radio.width is 10.0; it must be at least 100
radio.name=log_distance | radio.rate=nr_sidelink | radio.width=9e12 => radio.width is 9000000000000.0; it must be at
radio.name=air_to_ground | radio.frequency=2400 => radio.frequency is 2400.0; it must be at least 0.03125 and at
radio.rate=shannon | cost.bandwidth=1e6 => cost.bandwidth is 1000000.0; it must be inf: radio.rate shannon says the rate
radio.rate=table => radio.mcs has no row; it must be 'dB,bit/s; dB,bit/s; ...'
radio.rate=table | radio.mcs=4,1e6; 5 => radio.mcs: '5' is not of the form x,y
radio.rate=table | radio.mcs=4,0; 5,1e6 => radio.mcs: 4,0 carries nothing; a rate must be greater than 0
radio.rate=table | radio.mcs=4,inf => radio.mcs: 4,inf is not finite
"""
ENERGY = """
& energy.capacity=100 | cost.joules_per_sample=1
energy.chargers=2 => energy.chargers: '2' is not of the form x,y
energy.chargers=1,1; 2,6 => energy.chargers: the place 2,6 is outside of the area 1..5 x 1..5
network.mobility=trace | trace.file=town.csv | cost.joules_per_metre=2 => cost.joules_per_metre is 2.0; it must be 0 wit
"""
COLLECTING = """
& data.collect=4
data.window=9999999 => data.window is 9999999; it must be at most 2796202: all clients keep at most 67,108,864 samples
cost.joules_per_sample=1 => algorithm.batch_size is 0; it must be 1 or more with data.collect 4 and costs: they count on
metrics=local_accuracy => metrics: 'local_accuracy' needs test samples with natural owners
data.drift=rotation | data.name=python_topics | model.name=lstm => data.drift is rotation; it must be another one: the
& data.collect=0
metrics=accuracy_here => metrics: 'accuracy_here' needs clients that collect their samples (data.collect), which this ta
"""
DATA = """
data.partition=classes_per_client | data.classes_per_client=11 => is 11; digits has 10 classes
data.partition=table => data.table is ''; data.partition table needs a CSV or npz file
data.partition=table | data.table=no.csv => 'no.csv': there is no such file
model.name=cnn | model.widths=2x2x2x2 => 8 x 8 images of digits there must be at most 3
data.name=synthetic:linear | model.trainable=w => model.trainable is 'w'; it must be empty with data.name synthetic:line
& data.dir=. | data.limit_train=0 | data.limit_test=0
data.name=absent => unknown data.name 'absent'
& model.name=resnet18 | model.base_width=2
model.pretrained=w.npz | model.name=cnn => model.name is cnn; it must be resnet18 or resnet50: 'w.npz' holds weights of
model.pretrained=absent.npz => model.pretrained: 'absent.npz': there is no such file
model.pretrained_clients=mean => it must be own unless model.pretrained names checkpoints of a study
"""
MOVEMENT = """
network.order=first => network.order: unknown order 'first' (did you mean 'mix_first'?); known: mix_first, move_first
network.graph=barbell | network.num_clients=3 => network.num_clients is 3; a barbell needs
network.mobility=waypoint | network.world=plane => network.world is plane; with network.mobility waypoint it must be
network.mobility=dcm | network.world=moon => network.world: unknown world 'moon'; known: auto, contacts, grid, plane, tr
network.mobility=dcm_met => mobility dcm_met is now network.mobility=dcm, motion.knowledge=met; in Python
network.mobility=staleness | engine.links=lists => network.mobility staleness compares models over matrices
& network.relays=3
network.num_mobile=4 => network.num_mobile is 4; it must be at most network.num_clients - network.relays
& algorithm.name=fedmobile
network.mobility=staleness | server.pattern=roadside | server.units=2,2 => network.mobility must not compare models
& network.order=move_first
data.partition=by_place => it must be mix_first: data.partition by_place reads the places before any movement
& network.graph=random_regular
graph.degree=1 => needs 2 or more
network.graph=small_world | graph.degree=3 => graph.degree is 3; for small_world it must be even
& network.graph=erdos_renyi | network.num_clients=100
graph.degree=2 => graph.degree is 2; of 100 clients one draw in
"""
TABLES = {name.lower(): text for name, text in globals().items() if name.isupper() and isinstance(text, str)}


N, RING = 6, oracle.links(6, "ring")
TRACE = [  # eight vehicles for six seconds, the last one for two
    f"{t},v{i},{(100 * i + (37 * i + 20) * t) % 400},{60 * i}" for t in range(7) for i in range(8) if i < 7 or t <= 2
]
SPEEDS = ("0", "1e39")  # the last is not finite in single precision
FILES = {
    "loop.txt": "0,1\n2,2\n",
    "half.txt": "0,1.5\n",
    "oblong.csv": "0,0,0,0,0\n" * N,
    "apart.npy": np.kron(np.eye(2), ~np.eye(3, dtype=bool)).astype(bool),
    "arrow.npy": np.triu(np.ones((N, N)), 1),
    "rows.npy": RING * 0.4,
    "half.npy": RING * 0.5,
    "nan.npy": np.full((N, N), np.nan),
    "two.npz": {"a": RING, "b": RING},
    "cut.npz": "not an archive",
    "town.csv": "\n".join(["time,id,x,y", *TRACE]),
    "list.csv": "round,i,j\n0,0,1\n1,2,3\n2,4,5\n3,0,5\n",
    "soon.csv": "0,soon\n",
    "head.csv": "client,slot\n",
    "speeds.txt": "1 2 3 4 5 6",
    "speeds_2.txt": "1\n2\n",
    **{f"speeds_{last}.txt": f"1 2 3 4 5 {last}" for last in SPEEDS},
    "w.npz": random_tensors("resnet18", width=2),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the tables name."""
    made = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        path = made / name
        if isinstance(content, str):
            path.write_text(content)
        elif name.endswith(".npz"):
            np.savez(path, **content)
        else:
            np.save(path, content)
    return made


def line_of(config, fields=MappingProxyType({})):
    """The line that is told of a configuration with these fields, given as texts."""
    return told(lambda: make_study(with_fields(config, fields)))


@pytest.mark.filterwarnings("error:overflow")
@pytest.mark.parametrize(("fields", "expected"), [case for name, text in TABLES.items() for case in cases(text, name)])
def test_a_mistake_is_told_in_one_line(tiny, folder, monkeypatch, fields, expected):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MDFL_DATA_DIR", raising=False)
    assert expected in line_of(tiny(), fields)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"network": {"radius": "3"}}, "network.radius is '3'; it must be a number"),
        ({"network": {"num_clients": 2.0}}, "network.num_clients is 2.0; it must be a whole number"),
        ({"network": {"radus": 3.0}}, "unknown config key 'network.radus' (did you mean 'network.radius'?); "),
        ({"network": 3}, "network is 3; it must be a section"),
        ({"seeds": None}, "seeds is None; it must be a whole number"),
        ({"engine": {"record_positions": 1}}, "engine.record_positions is 1; it must be true or false"),
        ({"model": {"widths": (4.0,)}}, "it must be whole numbers"),
        ({"model": {"name": "cnn", "widths": ()}}, "model.name cnn needs one width or more"),
        ({"use": "nope.py"}, "use is 'nope.py': there is no such file"),
    ],
)
def test_a_tree_of_other_types_is_told_in_one_line(tree, expected):
    assert expected in line_of(ConfigDict(tree))
