"""The meter of a program for a TPU, on a program by hand."""

from mdfl_jax.contrib.estimates.meters import Collective, Operation, read_cost

PROGRAM = """HloModule jit_advance, is_scheduled=true

%cheap (p.1: f32[8]) -> f32[8] {
  %p.1 = f32[8]{0} parameter(0)
  ROOT %add.1 = f32[8]{0} fusion(%p.1), kind=kLoop, calls=%x, backend_config={"estimated_cycles":"5"}
}

%dear (p.2: f32[8]) -> f32[8] {
  %p.2 = f32[8]{0} parameter(0)
  ROOT %add.2 = f32[8]{0} fusion(%p.2), kind=kLoop, calls=%x, backend_config={"estimated_cycles":"50"}
}

%inner_body (q: (s32[], f32[8])) -> (s32[], f32[8]) {
  %q = (s32[], f32[8]{0}) parameter(0)
  %mul = f32[8]{0:T(8,128)S(1)} fusion(%q), calls=%x, metadata={op_name="a/b"}, backend_config={"estimated_cycles":"7"}
  ROOT %t.1 = (s32[], f32[8]{0}) tuple(%q, %mul)
}

%limit (i: s32[]) -> pred[] {
  %i = s32[]{:T(128)} parameter(0)
  %constant.5 = s32[]{:T(128)} constant(3)
  ROOT %lt.5 = pred[] compare(%i, %constant.5), direction=LT
}

%inner_condition (q: (s32[], f32[8])) -> pred[] {
  %q.2 = (s32[], f32[8]{0}) parameter(0)
  %i.2 = s32[] get-tuple-element(%q.2), index=0
  ROOT %lt = pred[]{:T(512)} fusion(%i.2), kind=kLoop, calls=%limit
}

%sending (s: f32[8]) -> (f32[8], u32[]) {
  %s = f32[8]{0} parameter(0)
  %gathered = f32[64]{0:T(128)} all-gather(%s), dimensions={0}
  ROOT %sent = (f32[8]{0}, u32[]) custom-call(%gathered)
}

%search_condition (g: (s32[], s32[])) -> pred[] {
  %g = (s32[], s32[]) parameter(0)
  ROOT %ne = pred[] custom-call(%g)
}

%round_body (r: (s32[], f32[8])) -> (s32[], f32[8]) {
  %r = (s32[], f32[8]{0}) parameter(0)
  %async-collective-start = (f32[8]{0}, u32[]) fusion(%r), kind=kLoop, calls=%sending
  %links = f32[8]{0} fusion(%r), calls=%x, metadata={op_name="jit(f)/while/body/round/links"}, \
backend_config={"estimated_cycles":"100"}
  %async-collective-done = f32[8]{0} fusion(%async-collective-start), kind=kLoop, calls=%x
  %copy.1 = f32[8]{0} copy(%links), backend_config={"estimated_cycles":"1000"}
  %loop = (s32[], f32[8]{0}) while(%r), condition=%inner_condition, body=%inner_body
  %searched = (s32[], f32[8]{0}) while(%r), condition=%search_condition, body=%inner_body
  %choice = f32[8]{0} conditional(%r, %r, %r), branch_computations={%cheap, %dear}
  %reduced = f32[2,4]{1,0} all-reduce(%choice), replica_groups={}, to_apply=%x
  %begun = (f32[4]{0}, bf16[16]{0}) all-gather-start(%reduced), dimensions={0}
  %ended = bf16[16]{0} all-gather-done(%begun)
  ROOT %t.2 = (s32[], f32[8]{0}) tuple(%r, %copy.1)
}

%round_condition (r: (s32[], f32[8])) -> pred[] {
  %r.2 = (s32[], f32[8]{0}) parameter(0)
  %constant.1 = s32[]{:T(128)} constant(20)
  ROOT %lt.2 = pred[] compare(%r.2, %constant.1), direction=LT
}

%models_body (m: (s32[], f32[8])) -> (s32[], f32[8]) {
  %m = (s32[], f32[8]{0}) parameter(0)
  %handed = f32[8]{0} get-tuple-element(%m), index=1, metadata={op_name="jit(f)/while/body/round/ge"}
  %logits = f32[8]{0} fusion(%m), calls=%x, metadata={op_name="jit(f)/while/body/conv"}, \
backend_config={"estimated_cycles":"30"}
  %loss = f32[8]{0} fusion(%logits), calls=%x, metadata={op_name="jit(f)/while/body/loss"}, \
backend_config={"estimated_cycles":"3"}
  ROOT %t.3 = (s32[], f32[8]{0}) tuple(%m, %loss)
}

ENTRY %main (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  %rounds = (s32[], f32[8]{0}) while(%a), condition=%round_condition, body=%round_body
  %models = (s32[], f32[8]{0}) while(%rounds), condition=%inner_condition, body=%models_body
  ROOT %evaluated = f32[8]{0} fusion(%models), kind=kLoop, calls=%x, backend_config={"estimated_cycles":"400"}
}
"""


def test_loops_are_multiplied_out_and_the_dearest_branch_counts():
    cost = read_cost(PROGRAM)
    assert cost.rounds == 20 * (100 + 1000 + 3 * 7 + 7 + 50)
    assert cost.rest == 400 + 3 * 33  # the evaluation's loop, though a round's operation was moved into it
    assert cost.operations[0] == (Operation("copy", "", "f32[8]"), 20_000)
    assert (Operation("fusion", "a/b", "f32[8]"), 20 * 4 * 7) in cost.operations
    assert cost.unknown == 20  # one search in each round, of a length that nothing tells
    assert sum(cycles for _, cycles in cost.operations) == cost.rounds + cost.rest


def test_the_steps_of_local_epochs_are_given():
    loop = "condition=%search_condition, body=%inner_body"
    text = PROGRAM.replace(loop, loop + ', metadata={op_name="jit(f)/while/body/round/epochs/while"}')
    cost = read_cost(text, epoch_steps=5)
    assert cost.rounds == 20 * (100 + 1000 + 3 * 7 + 5 * 7 + 50)
    assert cost.unknown == 0


def test_collectives_of_the_rounds_are_counted_with_their_bytes():
    """One all-gather is ended at once, the other, as a TPU's compiler writes it, with a fusion in between."""
    reduced, gathered = Collective("all-reduce", 20, 20 * 32, 20), Collective("all-gather", 40, 20 * (32 + 256), 20)
    assert read_cost(PROGRAM).collectives == [reduced, gathered]
