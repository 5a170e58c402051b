"""The deliberate faults of `make mutants` can be tried: the code that they change is there, and so are their tests."""

from tests.mutants.mutant import wrong_in
from tests.mutants.of_files import MUTANTS as OF_FILES
from tests.mutants.of_rules import MUTANTS as OF_RULES


def test_every_fault_can_be_tried():
    assert [line for mutant in (*OF_FILES, *OF_RULES) for line in wrong_in(mutant)] == []
    assert all(mutant.right != mutant.wrong for mutant in (*OF_FILES, *OF_RULES))
