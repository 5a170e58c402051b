"""The deliberate faults of `make mutants` can be tried: the code that they change is there, and so are their tests."""

from tests.mutants.mutant import ROOT, Mutant, wrong_in
from tests.mutants.of_files import MUTANTS as OF_FILES
from tests.mutants.of_rules import MUTANTS as OF_RULES


def test_every_fault_can_be_tried():
    assert [line for mutant in (*OF_FILES, *OF_RULES) for line in wrong_in(mutant)] == []
    assert all(mutant.right != mutant.wrong for mutant in (*OF_FILES, *OF_RULES))


def test_a_fault_whose_code_or_tests_are_gone_is_told():
    assert (ROOT / "mdfl_jax" / "storage" / "disk.py").is_file()
    said = wrong_in(Mutant("storage/disk.py", "no such text", "", "test_gone.py"))
    assert said == [
        "storage/disk.py: 'no such text' stands there 0 times, not once",
        "storage/disk.py: there is no tests/test_gone.py",
    ]
