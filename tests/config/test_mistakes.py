"""Wrong configurations, each told in one line before a study runs: fields, sweeps, files, and what cannot go together.

The fields are given as texts (tests/tables.py), and the study is the tiny one of tests/tiny.py.
"""

import gzip
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
eval_every=8 => rounds is 4; it must be a multiple of eval_every, which is 8
name= => name is ''; it must be a file name
name=.. => name is '..'; it must be a file name
name=a/b => name is 'a/b'; it must be a file name of at most 200 bytes
x_axis=seconds => x_axis is seconds; it must be another one, or a field of cost must be set
stop_std=0.1 => stop_std is 0.1; it must be 0 unless data.name is one of
engine.precision=float64 => engine.precision is float64; it must be float32, tensorfloat32 or bfloat16 with data
network.radius=1e308 => network.radius is 1e+308, inf in single precision; it must be inf, or below 3.4e38
network.radius=abc => network.radius is 'abc'; it must be a number
network.radius=nan => network.radius is nan; it must be at least 0
network.num_clients=2.5 => network.num_clients is '2.5'; it must be a whole number
seeds=true => seeds is 'true'; it must be a whole number
engine.record_positions=2 => engine.record_positions is '2'; it must be true or false
model.widths=a => model.widths is 'a'; it must be whole numbers, as in 16x32
model.kernel=2 => model.kernel is 2; it must be odd
data.alpha=1e-40 => data.alpha is 1e-40, 0.0 in single precision
data.alpha=1e39 => data.alpha is 1e+39, inf in single precision
data.name=digts => unknown data.name 'digts' (did you mean 'digits'?); known: digits
data.name= => data.name is ''; it must be digits
nope=1 => unknown config key 'nope'; among the
radius=1 => (did you mean 'network.radius'?)
network=3 => network is a section; set its fields, as in network.FIELD=VALUE
network.radus=3 => unknown config key 'network.radus' (did you mean 'network.radius'?); among the
network.radius.x=3 => unknown config key 'network.radius.x'
network.tell_met=true => network.tell_met is called motion.tell_met now
network.warm_up_met=1 => network.warm_up_met is called motion.warm_up_met now
network.num_mobile=7 => network.num_mobile is 7; it must be at most network.num_clients, which is 6
network.relays=6 => network.relays is 6; it must be at most 5: network.num_clients is 6
network.order=move_first | network.graph=ring => network.order is move_first; it must be mix_first: a graph (network.gr
engine.max_neighbours=5 | engine.links=dense => engine.max_neighbours is 5; it must be 0 with engine.links=dense
engine.convolution=onednn | engine.precision=bfloat16 => engine.convolution is onednn; it must be another form with
engine.links=lists | network.graph=star => engine.links is lists; network.graph=star is a matrix,
"""
STREAMS = """
vary=placment => vary is 'placment': unknown stream 'placment' (did you mean 'placement'?); known:
vary=all but movement => unknown stream 'movement'
vary=dropout => unknown stream 'dropout'
vary= => vary is '', which names no stream; known: all, all but STREAM, partition,
vary=all but => names no stream
vary=all placement => unknown stream 'all'
vary=init init => names a stream twice
vary=all but partition placement init mobility link cost evaluation batch => leaves no stream
held_seed=3 => held_seed is 3; it must be 0 where vary is all
sweep=vary=all,init; held_seed=0,1 => sweep, point 'all, held_seed=1': held_seed is 1; it must be 0
"""
SWEEPS = """
sweep=network.mobility => sweep: 'network.mobility' is not of the form field=value,value
sweep=network.mobility= => sweep: 'network.mobility=' is not of the form field=value,value
sweep=;; => sweep is ';;'; it must be of the form
sweep==static => sweep: unknown config key ''
sweep=network.mobilty=static => sweep: unknown config key 'network.mobilty' (did you mean 'network.mobility'?)
sweep=network=static => sweep: network is a section; set its fields, as in network.FIELD=VALUE
sweep=network.mobility=static,dcn => sweep: network.mobility: unknown mobility 'dcn' (did you mean 'dcm'?); known:
sweep=network.mobility=static, => unknown mobility ''
sweep=network.mobility=static,static => sweep: network.mobility holds a value twice: static,static
sweep=network.radius=1,1.0 => sweep: network.radius holds a value twice: 1,1.0
sweep=network.mobility=static; network.mobility=dcm => sweep: network.mobility is given twice
sweep=network.radius+network.radius=1+1 => sweep: network.radius is given twice
sweep=network.radius=1; network.num_mobile+network.radius=1+1 => sweep: network.radius is given twice
sweep=network.num_mobile+network.radius=1 => takes 2 values tied by '+', not '1'
sweep=network.num_mobile+network.radius=1+2+3 => takes 2 values tied by '+', not '1+2+3'
sweep=network.radius=1,x => sweep: network.radius is 'x'; it must be a number
sweep=network.radius=nan => sweep: network.radius is nan; it must be at least 0
sweep=network.num_mobile=2.5 => sweep: network.num_mobile is '2.5'; it must be a whole number
sweep=network.num_mobile=1,9 => sweep, point 'num_mobile=9': network.num_mobile is 9; it must be at most
sweep=network.num_clients=1,6 => sweep, point 'num_clients=1': network.num_mobile is 2; it must be at most
sweep=data.alpha=inf => data.alpha is inf
sweep=model.widths=4xa => sweep: model.widths is '4xa'; it must be whole numbers, as in 16x32
sweep=seeds=1,2 => sweep: seeds cannot be an axis; known axes: algorithm.aggregation,
sweep=engine.tile=1,2 => sweep: engine.tile cannot be an axis
sweep=data.name=digits,digts => unknown data.name 'digts'
sweep=network.graph=ring,torus => sweep, point 'torus': network.num_clients is 6
sweep=network.mobility=static,dcm; motion.knowledge=oracle,met => sweep, point 'static, met': motion.knowledge is met;
sweep=network.mobility+motion.knowledge=static+met,dcm+met => so it must be oracle: tie the fields, network.mobility+mot
& sweep=network.mobility=static,dcm
baseline=network.mobility => baseline is 'network.mobility'; it must be of the form field=value
baseline=network.mobilty=static => baseline: unknown config key 'network.mobilty' (did you mean
baseline=network.mobility=statc => unknown mobility 'statc' (did you mean 'static'?)
baseline=network.radius=abc => baseline: network.radius is 'abc'; it must be a number
baseline=network.mobility+network.radius=static => baseline: network.mobility+network.radius takes 2 values tied by '+'
baseline=seeds=3 => baseline: seeds cannot be an axis
select=network.mobility => select is 'network.mobility'; it must be an axis of numbers of the sweep
& sweep=algorithm.lr=0.1,0.2 | select=algorithm.lr
data.validation=0 => select is 'algorithm.lr', which needs validation samples; data.validation is 0
data.validation=20 | baseline=algorithm.lr=0.1 => baseline is 'algorithm.lr=0.1'; it must be empty where select choose
"""
LABELS = """
& sweep=network.mobility=dcm,random_movement | data.alpha=0.5
labels=dcn=DCM => labels: unknown value, or field of the sweep, 'dcn' (did you mean 'dcm'?)
labels=dpsdg=D-PSGD => labels: unknown value, or field of the sweep, 'dpsdg' (did you mean 'dpsgd'?)
labels=network.mobilty=rule => labels: unknown value, or field of the sweep, 'network.mobilty' (did you mean 'netw
labels=network.mobility=dam=DAM => labels: unknown value, or field of the sweep, 'network.mobility=dam'
labels=algorithm.lr=0.05=small => labels: unknown value
sweep=network.mobility=dcm,dam | labels=static=No => unknown value, or field of the sweep, 'static'
"""
KEEPING = """
save=last => save is 'last'; it must be empty, final, best, or every:K
save=none => save is 'none'; it must be empty, final, best, or every:K
save=every: => it must be empty
save=every:-2 => it must be empty
save=every:0 => K must be a multiple of eval_every, which is 2
save=every:3 => save is 'every:3'; K must be a multiple of eval_every, which is 2
save=every:6 => K must be at most rounds, which is 4, or nothing would be saved
sweep=save=final,best => save cannot be an axis
"""
EVALUATION = """
eval_clients=7 => eval_clients is 7; it must be 0 (all) or 4 to 6
eval_samples=61 => eval_samples is 61; it must be 0 (all) or 20 to 60
eval_clients=5 | judged=global => eval_clients is 5; it must be 0 with judged=global
eval_clients=5 | metrics=personal_accuracy => must be 0 (all) with the metric 'personal_accuracy'
sweep=eval_clients=4,5 => eval_clients cannot be an axis
"""
SYNTHETIC = """
& data.name=synthetic:linear | stop_std=0.001 | sweep=algorithm.lr=0.05,0.1 | select=algorithm.lr
select=algorithm.rho => axis of numbers
select=algorithm.name => axis of numbers
select=algorithm.lr,algorithm.lr => axis of numbers
select=algorithm.lr, algorithm.period_max => axis of numbers
sweep=algorithm.name=nids; algorithm.lr=0.1 | algorithm.participation=0.5 | algorithm.picks=one_way => nids needs symm
engine.precision=bfloat16 => float32 or float64
data.name=synthetic:cubic => synthetic:linear
data.name=digits => stop_std is 0.001
data.name=digits | stop_std=0 => data.validation is 0
data.name=digits | stop_std=0 | data.validation=5000 => data.validation is 5000
"""
ALGORITHMS = """
algorithm.compressor=top_k => algorithm.compressor is top_k; it must be '': dpsgd sends nothing compressed
algorithm.name=pame | algorithm.local_steps=2 => algorithm.local_steps is 2; it must be 1: pame takes one gradient step
algorithm.name=beer | algorithm.momentum=0.9 => algorithm.momentum is 0.9; it must be 0.0: beer has its step in its
algorithm.name=choco | algorithm.optimizer=adam => algorithm.optimizer is adam; it must be 'sgd': choco has its step
algorithm.name=anq_nids | algorithm.local_steps=5 => algorithm.local_steps is 5; it must be 1: anq_nids takes one
algorithm.name=pame | algorithm.local_epochs=2 => algorithm.local_epochs is 2; it must be 0: pame takes one gradient
algorithm.name=nids | algorithm.proximal=0.1 => algorithm.proximal is 0.1; it must be 0.0: nids takes one gradient step
algorithm.local_epochs=2 => algorithm.batch_size is 0; it must be 1 or more: algorithm.local_epochs is 2, and a full
algorithm.local_epochs=2 | algorithm.batch_size=8 | algorithm.local_steps=3 => algorithm.local_steps is 3; it must be 1
algorithm.local_epochs=2 | algorithm.batch_size=8 | algorithm.lr_schedule=cosine => it must be constant or exponential
algorithm.proximal=0.1 => algorithm.proximal is 0.1; it must be 0: algorithm.local_steps is 1, and a first step begins
algorithm.participation=0.5 | network.mixing=max_degree => network.mixing is max_degree; it must be metropolis_hastings
algorithm.name=choco | model.shared=x => model.shared is 'x'; it must be empty: choco exchanges whole models
algorithm.name=pame | algorithm.period_min=5 | algorithm.period_max=4 => algorithm.period_min is 5; it must be at most
algorithm.name=pame | algorithm.period_min=8 => it must be at most algorithm.period_max, which is 7 (pame's own)
algorithm.name=fedmobile => fedmobile needs meetings with a server
algorithm.name=choco | network.mobility=static | cost.short_contact=drop | cost.bandwidth=100 => choco needs the same li
algorithm.name=nids | network.graph=exponential => nids needs symmetric mixing weights, which network.graph=exponential
"""
PRESENCE = """
presence.name=poisson | presence.at_start=7 => presence.at_start is 7; it must be at most network.num_clients, which is
presence.name=table => presence.file is ''; it must be a file of lines client,from,to: presence.name is table
presence.file=x.csv => presence.file is 'x.csv'; it must be empty unless presence.name is table
presence.name=table | presence.file=none.csv => presence.file 'none.csv' cannot be read: No such file
presence.name=markov | server.pattern=fixed => presence.name is markov; it must be empty with server.pattern fixed
presence.name=trace => presence.name is trace; it must be another one: trace.gaps is hold, so that no client is ever
presence.name=trace | trace.gaps=absent => presence.name is trace; it must be another one: network.mobility random_m
presence.name=markov | algorithm.name=choco | network.graph=ring => choco needs the same links in every round
"""
CLOCKS = """
clock.joins=at_once => clock.joins is at_once; it must be empty: cost.seconds_per_sample is 0, so that work ta
& cost.seconds_per_sample=0.125 | algorithm.batch_size=8 | clock.joins=in_contact
server.pattern=fixed => clock.joins is in_contact; it must be empty with server.pattern fixed: who computes would miss
cost.deadline=3 => cost.deadline is 3.0; it must be inf with clock.joins in_contact: nobody waits
algorithm.period_max=3 => algorithm.period_max is 3; it must be 1 with clock.joins in_contact: a period counts slots
motion.dt=2 => cost.seconds_per_sample is 0.125; it must be at least 0.25: the fastest client's work must take a slot of
algorithm.local_steps=2 | motion.dt=3 => cost.seconds_per_sample is 0.125; it must be at least 0.1875: the fastest
cost.speeds=speeds_2.txt => cost.speeds 'speeds_2.txt' holds 2 numbers; network.num_clients is 6
cost.speeds=speeds_0.txt => cost.speeds 'speeds_0.txt': 0 is no speed; it must be greater than 0 and finite
algorithm.name=extra | network.graph=ring => extra needs the same links in every round, which network.graph=ring and clo
"""
GRAPHS = """
network.graph=file => graph.file is ''; it must be a file: network.graph is file
network.graph=ring | graph.file=x.txt => graph.file is 'x.txt'; network.graph is 'ring', and it must be file
graph.file=x.txt => network.graph is '', and it must be file
network.graph=torus => network.num_clients is 6; a torus needs
network.graph=random_regular | graph.degree=6 => graph.degree is 6; it must be less than
network.graph=ring | network.mixing=speed_aware => network.mixing is speed_aware; it must be a rule without speeds: a gr
network.graph=ring | network.link_fading=0.1 => network.link_fading is 0.1; it must be 0: a graph knows no distances
network.graph=ring | cost.short_contact=drop => cost.short_contact is drop; it must be ignore with network.graph ring
& network.graph=file
graph.file=absent => graph.file: 'absent': there is no such file
graph.file=loop.txt => graph.file: 'loop.txt': client 2 has a link to itself
graph.file=loop.npy => client 0 has a link to itself
graph.file=unknown.txt => line 2: client 6 is unknown; clients are 0 to 5, by network.num_clients
graph.file=negative.txt => line 1: client -1 is unknown
graph.file=half.txt => line 1: client 1.5 is unknown
graph.file=oblong.npy => an array of 1 x 6 x 5; matrices must be square
graph.file=oblong.csv => 6 rows of 5 columns; a matrix must be square
graph.file=flat.npy => matrices must be square
graph.file=small.npy => a graph of 5 clients; network.num_clients is 6
graph.file=apart.npy => the graph is not connected: 2 parts, one of them around client 0, 1, 2; graph.allow_disconnected
graph.file=arrow.npy => client 0 hears 1 and not the other way round; graph.directed takes that
graph.file=rows.npy => the weights of client 0 sum to 0.8 in matrix 0; rows must sum to 1
graph.file=nan.npy => a weight is not finite
graph.file=half.npy | algorithm.participation=0.5 => graph.file 'half.npy' has weights; algorithm.participation must
graph.file=words.txt => line 2: 'one,two' is not of numbers with commas or blanks between
graph.file=ragged.txt => line 2: 3 columns where line 1 has 2
graph.file=nothing.txt => it holds no line of numbers
graph.file=two.npz => it must hold one array, and holds 2 (a, b)
graph.file=text.npy => it must hold booleans or numbers
graph.file=cut.npy => graph.file: 'cut.npy': cannot be read
graph.file=cut.npz => cannot be read
"""
MOVEMENT = """
& network.mobility=random_walk
motion.up=0.5 => sum to 1.25 (up 0.5, down 0.25, left 0.25, right 0.25); probabilities must
motion.speed_max=5000 => motion.speed_max is 5000; the fastest client would meet 35 walls
& network.mobility=random_waypoint
motion.speed_min=60 => motion.speed_min is 60.0; it must be at most motion.speed_max, which is 50.0
motion.speed_min=0 => motion.speed_min is 0.0; random_waypoint needs it greater than 0
& network.mobility=levy_walk
motion.flight_min=600 => motion.flight_min is 600.0; it must be at most motion.flight_max
motion.pause_max=1 => motion.pause_min is 0.0; with pauses, levy_walk needs it greater
& network.mobility=manhattan
motion.block=501 => motion.block is 501; it must be at most motion.width and motion.height
motion.block=2 => would pass 25 crossings a round
& network.mobility=patrol
motion.loop=1,2; 3 => motion.loop: '3' is not of the form x,y
motion.loop=1,2; 1,2 => it must hold two different waypoints or more
motion.loop=1,2; 600,2 => the waypoint 600,2 is outside of the 500 x 500 metres
motion.loop=1,2; nan,2 => the waypoint nan,2 is outside
"""
TRACES = """
network.mobility=trace => trace.file is ''; it must be a file: network.mobility trace follows it
network.mobility=contacts => trace.file is ''; it must be a file: network.mobility contacts follows it
network.mobility=dcm | trace.file=town.csv => network.mobility dcm follows no trace; network.world must be trace or
network.mobility=dcm | trace.streets=a => network.mobility dcm follows no trace of places; network.world must be trace
& network.mobility=trace | trace.file=town.csv
trace.file=/nope.csv => trace.file: trace '/nope.csv': there is no such file
trace.file=/nope.csv | trace.made_by=make it => there is no such file; make it makes it
trace.streets=/nope.net.xml => trace.streets: trace '/nope.net.xml': there is no such file
trace.file=empty.csv => the file is empty
trace.file=nan.csv => it must be finite
trace.file=cut.xml => trace.file: trace
trace.file=cut.csv.gz => the file is cut off
trace.file=list.csv => holds a contact list; network.mobility is trace, and network.world must be contacts
network.num_clients=9 => network.num_clients is 9; 'town.csv' has 8 vehicles
rounds=8 => lasts 6 s: 6 rounds of motion.dt 1, and rounds is 8; trace.at_end=hold or trace.at_end=repeat
trace.start=3 => 3 from trace.start 3 on: 3 rounds of motion.dt 1, and rounds is 4
trace.start=7 | trace.at_end=hold => 0 from trace.start 7 on: that is no round of motion.dt 1
trace.format=csvv => did you mean 'csv'?
trace.format=sumo => trace.file: trace
sweep=network.mobility=trace,contacts => holds places; network.mobility is contacts
& network.mobility=contacts | trace.file=list.csv
trace.file=town.csv => holds places; network.mobility is contacts, and network.world must be trace
network.num_clients=5 => names client 5; there are 5 clients, 0 to 4
network.link_fading=0.1 => network.link_fading is 0.1; it must be 0: a contact list knows no distances
network.mixing=speed_aware => network.mixing is speed_aware; it must be a rule without speeds: a contact list knows none
network.order=move_first => network.order is move_first; it must be mix_first: network.mobility contacts knows no places
cost.short_contact=drop => cost.short_contact is drop; it must be ignore with 'list.csv': a list of rounds does not say
trace.times=5 => trace.times is '5'; it must be begin,end in seconds of the file, or dates with a time, such as
trace.types=car => trace.types names 'car'; it does not say what its nodes are
trace.area=0,0,9,9 => trace.area chooses places, and a contact list has none
server.pattern=roadside | server.units=2,2 => server.pattern is roadside; it must be another one: network.mobility cont
"""
SERVERS = """
server.pattern=random | server.gap_min=60 => server.gap_min is 60; it must be at most server.gap_max, which is 50
server.pattern=fixed | network.graph=ring => server.pattern is fixed; it must be empty with network.graph ring
server.pattern=fixed | network.link_failure=0.1 => network.link_failure is 0.1; it must be 0 under server.pattern fixed
server.file=meetings.csv => server.file is 'meetings.csv'; it must be empty unless server.pattern is table
server.units=2,2 => server.units is '2,2'; it must be empty unless server.pattern is roadside
& server.pattern=roadside
server.units= => server.units is ''; it must be a place or more, 'x,y; x,y; ...'
server.units=1;2 => server.units: '1' is not of the form x,y
server.units=nan,1 => server.units: 'nan,1' is not a place
server.units=2,6 => server.units: the place 2,6 is outside of the area 1..5 x 1..5
server.units=2,501 | network.mobility=manhattan => the place 2,501 is outside of the area 0..500 x 0..500
& algorithm.name=async_fl | server.pattern=table
server.file= => server.file is ''; it must be a file of lines client,slot: server.pattern is table
server.file=none.csv => server.file 'none.csv' cannot be read: No such file
server.file=client_6.csv => client is 6; it must be in 0..5
server.file=slot_-1.csv => slot is -1
server.file=three.csv => line 2: '0,1,2' is not client,slot
server.file=soon.csv => line 1: '0,soon' is not client,slot
server.file=head.csv => holds no meeting
& algorithm.name=fedmobile | server.pattern=fixed
algorithm.upload_from=41 => algorithm.upload_from is 41; it must be at most algorithm.upload_until, which is 40
algorithm.download_from=26 => it must be at most algorithm.download_until, which is 25
cost.short_contact=drop => cost.short_contact is drop; it must be ignore with server.pattern fixed: the durations of
cost.deadline=3 => cost.deadline is 3.0; it must be inf with server.pattern fixed
cost.joules_per_bit_received=1 => cost.joules_per_bit_received is 1.0; it must be 0 with server.pattern fixed
"""
COSTS = """
cost.speeds=none.txt => cost.speeds 'none.txt' cannot be read: No such file
cost.speeds=speeds.txt | cost.speed_spread=0.5 => cost.speed_spread is 0.5; it must be 0 where cost.speeds names a file
cost.speeds=speeds.txt | cost.speed_ratio=4 => cost.speed_ratio is 4.0; it must be 1 where cost.speeds names a file
cost.speeds=speeds_2.txt => cost.speeds 'speeds_2.txt' holds 2 numbers; network.num_clients is 6
cost.speeds=speeds_x.txt => 'x' is not a number
cost.speeds=speeds_0.txt => 0 is no speed; it must be greater than 0 and finite
cost.speeds=speeds_nan.txt => nan is no speed
cost.speeds=speeds_1e39.txt => 1e39 is no speed
cost.speeds=speeds_1e-40.txt => 1e-40 is no speed
& cost.short_contact=largest
algorithm.name=nids => cost.short_contact is largest; it must be another one: algorithm.name nids needs whole models
algorithm.name=pame => it must be another one: algorithm.name pame needs whole models
algorithm.name=kgt => it must be another one: algorithm.name kgt needs whole models
algorithm.name=swift => it must be another one: algorithm.name swift needs whole models
algorithm.aggregation=median => it must be another one: algorithm.aggregation median needs whole models
attack.name=sign_flip | attack.number=1 => it must be another one: attack.name sign_flip needs whole models
presence.name=markov | presence.newcomers=neighbour => it must be another one: presence.newcomers neighbour needs whole
"""
RADIOS = """
radio.fading=rayleigh => radio.fading is rayleigh; it must be empty with radio.name disc, which knows no strength of a
radio.rate=its_g5 => radio.rate is its_g5; it must be empty with radio.name disc, which knows no strength of a signal
radio.sharing=interference => radio.sharing is interference; it must be another one with radio.name disc, which knows no
radio.burst=0.1 | network.mobility=static | algorithm.name=choco => choco needs the same links in every round
radio.burst=0.1 | server.pattern=fixed => radio.burst is 0.1; it must be 0 with server.pattern fixed
radio.sharing=turns | server.pattern=fixed => radio.sharing is turns; it must be empty with server.pattern fixed
cost.short_contact=next_contact | engine.links=lists => engine.links is lists; it must be dense or auto: cost.short
& radio.name=log_distance
network.graph=ring => radio.name is log_distance; it must be disc: a graph (network.graph is ring) knows no distances
network.mobility=contacts | trace.file=list.csv => radio.name is log_distance; it must be disc: a contact list (network
server.pattern=fixed => radio.name is log_distance; it must be disc with server.pattern fixed
radio.name=air_to_ground | radio.height=2 | radio.height_spread=0.5 => radio.height is 2; the lowest client in the air,
radio.fading=nakagami | radio.fading_shape=0.7 => radio.fading_shape is 0.7; it must be a multiple of 0.5
radio.rate=shannon | cost.bandwidth=1e6 => cost.bandwidth is 1000000.0; it must be inf: radio.rate shannon says the rate
radio.rate=table => radio.mcs has no row; it must be 'dB,bit/s; dB,bit/s; ...'
radio.rate=table | radio.mcs=4,1e6; 5 => radio.mcs: '5' is not of the form x,y
radio.rate=table | radio.mcs=4,1e6; 3,2e6 => radio.mcs: 3,2e+06 follows 4,1e+06; both columns must grow from row to row
radio.rate=table | radio.mcs=4,2e6; 5,1e6 => radio.mcs: 5,1e+06 follows 4,2e+06; both columns must grow from row to row
radio.rate=table | radio.mcs=4,0; 5,1e6 => radio.mcs: 4,0 carries nothing; a rate must be greater than 0
radio.rate=table | radio.mcs=4,inf => radio.mcs: 4,inf is not finite
"""
ENERGY = """
& energy.capacity=100 | cost.joules_per_sample=1
energy.chargers=2 => energy.chargers: '2' is not of the form x,y
energy.chargers=; => energy.chargers is ';'; it must be a place or more, 'x,y; x,y; ...'
energy.chargers=1,1; 2,6 => energy.chargers: the place 2,6 is outside of the area 1..5 x 1..5
energy.chargers=2,2 | network.graph=ring => energy.chargers is '2,2'; it must be empty with network.graph ring, which kn
server.pattern=fixed | algorithm.name=fedmobile => energy.capacity is 100.0; it must be 0 with server.pattern fixed: who
algorithm.name=choco | network.graph=ring => choco needs the same links in every round
network.mobility=trace | trace.file=town.csv | cost.joules_per_metre=2 => cost.joules_per_metre is 2.0; it must be 0 wit
"""
PRESENCE = """
& presence.name=markov
algorithm.name=kgt | presence.newcomers=initial => presence.newcomers is initial; it must be kept: the states of kgt's
algorithm.name=osgp | presence.newcomers=neighbour => presence.newcomers is neighbour; it must be kept: the states of os
"""
COLLECTING = """
& data.collect=4
network.graph=ring => data.collect is 4; it must be 0 with network.graph ring: its clients are at no places
network.mobility=trace | trace.file=town.csv => data.collect is 4; it must be 0 with network.mobility trace: the area of
server.pattern=fixed | algorithm.name=fedmobile => data.collect is 4; it must be 0 with server.pattern fixed: its client
network.order=move_first => network.order is move_first; it must be mix_first with data.collect 4: clients collect befor
data.window=9999999 => data.window is 9999999; it must be at most 2796202: all clients keep at most 67,108,864 samples
cost.joules_per_sample=1 => algorithm.batch_size is 0; it must be 1 or more with data.collect 4 and costs: they count on
metrics=local_accuracy => metrics: 'local_accuracy' needs test samples with natural owners
data.drift=rotation | data.name=python_topics | model.name=lstm => data.drift is rotation; it must be another one: the
& data.collect=0
metrics=accuracy_here => metrics: 'accuracy_here' needs clients that collect their samples (data.collect), which this ta
"""
DATA = """
data.partition=classes_per_client | data.classes_per_client=11 => is 11; digits has 10 classes
data.partition=by_owner => data.partition is by_owner; digits has no array 'client'
data.partition=table => data.table is ''; data.partition table needs a CSV or npz file
data.partition=table | data.table=no.csv => 'no.csv': there is no such file
model.name=cnn | model.widths=2x2x2x2 => 8 x 8 images of digits there must be at most 3
data.name=synthetic:linear | model.trainable=w => model.trainable is 'w'; it must be empty with data.name synthetic:line
& data.dir=. | data.limit_train=0 | data.limit_test=0
data.name=absent => unknown data.name 'absent'
data.name=cut_data => cut_data.npz
data.name=keys => needed: x_train
data.name=shape => one shape
data.name=pickled => no pickled objects
& model.name=resnet18 | model.base_width=2
model.pretrained=w.npz | model.name=cnn => model.name is cnn; it must be resnet18 or resnet50: 'w.npz' holds weights of
model.pretrained=w.npz | model.name=resnet20 => model.name is resnet20; it must be resnet18 or resnet50
model.pretrained=w.npz | model.norm=group => model.pretrained is 'w.npz'; it must be empty with model.norm group
model.pretrained=w.npz | data.name=synthetic:linear => it must be empty with data.name synthetic:linear
model.pretrained=absent.npz => model.pretrained: 'absent.npz': there is no such file
model.pretrained=w.npz | model.name=resnet50 => model.pretrained: 'w.npz': it is of a ResNet-18; the model is a ResNet
model.pretrained_clients=mean => it must be own unless model.pretrained names kept models of a study
"""
MOVEMENT = """
network.order=first => network.order: unknown order 'first' (did you mean 'mix_first'?); known: mix_first, move_first
network.graph=barbell | network.num_clients=3 => network.num_clients is 3; a barbell needs
network.contact=swep => network.contact: unknown contact 'swep' (did you mean 'swept'?)
network.movers=most => network.movers: unknown movers 'most'
network.relays=-1 => network.relays is -1; it must be at least 0
network.relays=1 | network.relay_places=hub => network.relay_places: unknown relay_places 'hub'
network.mobility=waypoint | network.world=plane => network.world is plane; with network.mobility waypoint it must be
network.mobility=dcm | network.world=trace => network.world is trace; with network.mobility dcm it must be grid or plane
network.mobility=dcm | network.world=moon => network.world: unknown world 'moon'; known: auto, contacts, grid, plane, tr
network.mobility=dcm | motion.knowledge=explored => motion.knowledge is explored; with network.mobility dcm it must be o
network.mobility=dcm | motion.knowledge=mt => motion.knowledge: unknown knowledge 'mt' (did you mean 'met'?); known: exp
network.mobility=cover_tour | motion.knowledge=met => motion.knowledge is met; with network.mobility cover_tour it must
network.mobility=dcm_met => mobility dcm_met is now network.mobility=dcm, motion.knowledge=met; in Python
network.mobility=static_trace => mobility static_trace is now network.mobility=static, network.world=trace
network.mobility=staleness | engine.links=lists => network.mobility staleness compares models over matrices
& network.relays=3
network.graph=ring => network.relays is 3; it must be 0 with network.graph ring
network.mobility=random_walk => network.relays is 3; it must be 0 with network.mobility random_walk
network.mobility=group => network.relays is 3; it must be 0 with network.mobility group
network.mixing=fedavg => network.relays is 3; it must be 0 with network.mixing fedavg
data.name=synthetic:linear => network.relays is 3; it must be 0 with data.name synthetic:linear
server.pattern=random => network.relays is 3; it must be 0 with server.pattern random
network.num_mobile=4 => network.num_mobile is 4; it must be at most network.num_clients - network.relays
& algorithm.name=fedmobile
network.order=move_first | server.pattern=fixed => it must be mix_first: under server.pattern fixed pairs are drawn
network.mobility=staleness | server.pattern=roadside | server.units=2,2 => network.mobility must not compare models
& network.order=move_first
data.partition=by_place => it must be mix_first: data.partition by_place reads the places before any movement
& network.graph=random_regular
graph.degree=1 => needs 2 or more
network.num_clients=7 | graph.degree=3 => graph.degree is 3 and network.num_clients 7
network.graph=small_world | graph.degree=3 => graph.degree is 3; for small_world it must be even
& network.graph=erdos_renyi | network.num_clients=100
graph.degree=2 => graph.degree is 2; of 100 clients one draw in
graph.probability=0.01 => graph.probability is 0.01; of 100 clients
"""
TABLES = {name.lower(): text for name, text in globals().items() if name.isupper() and isinstance(text, str)}


N, RING = 6, oracle.links(6, "ring")
TRACE = [  # eight vehicles for six seconds, the last one for two
    f"{t},v{i},{(100 * i + (37 * i + 20) * t) % 400},{60 * i}" for t in range(7) for i in range(8) if i < 7 or t <= 2
]
IMAGES = {f"{kind}_{part}": np.zeros((30, 6, 6), np.uint8) if kind == "x" else np.arange(30) % 3
          for kind in "xy" for part in ("train", "test")}  # fmt: skip
SPEEDS = ("0", "nan", "x", "1e39", "1e-40")  # the last two are not finite and 0 in single precision
FILES = {
    "loop.txt": "0,1\n2,2\n",
    "loop.npy": np.ones((N, N)),
    "unknown.txt": "0,1\n1,6\n",
    "negative.txt": "0,-1\n",
    "half.txt": "0,1.5\n",
    "oblong.npy": np.zeros((N, 5)),
    "oblong.csv": "0,0,0,0,0\n" * N,
    "flat.npy": np.zeros(N),
    "small.npy": oracle.links(5, "ring"),
    "apart.npy": np.kron(np.eye(2), ~np.eye(3, dtype=bool)).astype(bool),
    "arrow.npy": np.triu(np.ones((N, N)), 1),
    "rows.npy": RING * 0.4,
    "half.npy": RING * 0.5,
    "nan.npy": np.full((N, N), np.nan),
    "words.txt": "0,1\none,two\n",
    "ragged.txt": "0,1\n0,1,2\n",
    "nothing.txt": "# nothing\n",
    "two.npz": {"a": RING, "b": RING},
    "text.npy": np.array([["a"] * N] * N),
    "cut.npy": "not an array",
    "cut.npz": "not an archive",
    "town.csv": "\n".join(["time,id,x,y", *TRACE]),
    "empty.csv": "",
    "nan.csv": "time,id,x,y\n0,a,1,nan\n",
    "cut.xml": "<fcd-export><timestep time='0'><vehic",
    "cut.csv.gz": gzip.compress(b"time,id,x,y\n0,a,1,2\n1,a,2,3\n")[:-4],
    "list.csv": "round,i,j\n0,0,1\n1,2,3\n2,4,5\n3,0,5\n",
    "client_6.csv": "client,slot\n6,0\n",
    "slot_-1.csv": "0,-1\n",
    "three.csv": "client,slot\n0,1,2\n",
    "soon.csv": "0,soon\n",
    "head.csv": "client,slot\n",
    "speeds.txt": "1 2 3 4 5 6",
    "speeds_2.txt": "1\n2\n",
    **{f"speeds_{last}.txt": f"1 2 3 4 5 {last}" for last in SPEEDS},
    "whole.npz": IMAGES,
    "keys.npz": {"x": IMAGES["x_train"]},
    "shape.npz": IMAGES | {"x_test": IMAGES["x_test"][:, :5]},
    "pickled.npz": IMAGES | {"y_train": np.array([{}] * 30, object)},
    "w.npz": random_tensors("resnet18", width=2),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the tables name."""
    made = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        path = made / name
        if isinstance(content, str | bytes):
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        elif name.endswith(".npz"):
            np.savez(path, **content)
        else:
            np.save(path, content)
    (made / "cut_data.npz").write_bytes((made / "whole.npz").read_bytes()[:-400])
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
        ({"network": {"radius": True}}, "network.radius is True; it must be a number"),
        ({"network": {"radius": 10**400}}, "it must be a number"),
        ({"network": {"num_clients": 2.0}}, "network.num_clients is 2.0; it must be a whole number"),
        ({"network": {"mobility": ["static"]}}, "it must be a text"),
        ({"network": {"radus": 3.0}}, "unknown config key 'network.radus' (did you mean 'network.radius'?); among"),
        ({"netwrk": {"radius": 3.0}}, "unknown config key 'netwrk'"),
        ({"network": 3}, "network is 3; it must be a section"),
        ({"seeds": None}, "seeds is None; it must be a whole number"),
        ({"seeds": {"a": 1}}, "it must be a whole number"),
        ({"engine": {"record_positions": 1}}, "engine.record_positions is 1; it must be true or false"),
        ({"model": {"widths": "16"}}, "model.widths is '16'; it must be whole numbers"),
        ({"model": {"widths": (4.0,)}}, "it must be whole numbers"),
        ({"model": {"name": "cnn", "widths": ()}}, "model.name cnn needs one width or more"),
        ({"name": "a" * 300}, "at most 200 bytes"),
        ({"use": 3}, "use is 3; it must be a text"),
        ({"use": "nope.py"}, "use is 'nope.py': there is no such file"),
    ],
)
def test_a_tree_of_other_types_is_told_in_one_line(tree, expected):
    assert expected in line_of(ConfigDict(tree))
