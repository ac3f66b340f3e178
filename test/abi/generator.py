"""cmake/generate_entries.py: what it makes of a header and entries, and what it refuses."""

import os

from suite import ROOT

HEADER = """
/* chapter: First Things */
/* a heading */
int MPI_Put(const void* buf, int ranges[][3], MPI_Comm comm,
            int* flag);
double MPI_Wtime(void);
/* chapter: Second Things */
MPI_Comm MPI_Comm_fromint(int comm);
int MPI_Comm_toint(MPI_Comm comm);
int MPI_T_finalize(void);
/* end of chapters */
MPI_TWIN_(Put) MPI_TWIN_(Wtime) MPI_TWIN_(Comm_fromint) MPI_TWIN_(Comm_toint) MPI_TWIN_(T_finalize)
"""


class Tree:
    """A header and entries in a folder, and what the generator makes of them."""

    def __init__(self, suite, name, entries, header=HEADER):
        self.suite = suite
        self.folder = suite.tmp / name
        (self.folder / "abi").mkdir(parents=True)
        (self.folder / "mpi.h").write_text(header)
        for file, text in entries.items():
            (self.folder / "abi" / file).write_text(text)
        self.stubs, self.coverage = self.folder / "stubs.cpp", self.folder / "coverage.cpp"

    def generate(self):
        return self.suite.run(
            ["python3", ROOT / "cmake/generate_entries.py", "--header", self.folder / "mpi.h", "--entries", self.folder / "abi",
             "--stubs", self.stubs, "--coverage", self.coverage]
        )  # fmt: skip


def run(suite, prefix, reference):
    with suite.case("a function without an entry gets a stub, one with an entry none"):
        tree = Tree(suite, "stubs", {"a.cpp": "ISTHMUS_ENTRY(double,\n              Wtime)() { return 0; }\n"})
        suite.expect(tree.generate())
        text = tree.stubs.read_text()
        assert "ISTHMUS_ENTRY(int, Put)(const void*, int [][3], MPI_Comm comm, int*) {" in text, text
        assert 'return unsupported("MPI_Put", comm);' in text, text
        assert "return MPI_COMM_NULL;" in text and "return MPI_T_ERR_NOT_SUPPORTED;" in text, text
        assert "Wtime" not in text, text
    with suite.case("the table names chapter, function and whether it is implemented, in the header's order"):
        rows = [line.strip() for line in tree.coverage.read_text().splitlines() if line.startswith("    {")]
        assert rows == [
            '{"First Things", "MPI_Put", false},',
            '{"First Things", "MPI_Wtime", true},',
            '{"Second Things", "MPI_Comm_fromint", false},',
            '{"Second Things", "MPI_Comm_toint", false},',
            '{"Second Things", "MPI_T_finalize", false},',
        ], rows
    with suite.case("what does not change is not written again"):
        for path in (tree.stubs, tree.coverage):
            os.utime(path, (1, 1))
        suite.expect(tree.generate())
        assert tree.stubs.stat().st_mtime == 1 and tree.coverage.stat().st_mtime == 1, "the files were written again"
        (tree.folder / "abi/room").mkdir()
        (tree.folder / "abi/room/b.cpp").write_text("ISTHMUS_ENTRY(int, Put)(...) {}\n")
        suite.expect(tree.generate())
        assert tree.stubs.stat().st_mtime != 1 and "Put" not in tree.stubs.read_text()
    with suite.case("entries in comments and strings do not count"):
        text = '// ISTHMUS_ENTRY(int, Put)\n/* ISTHMUS_ENTRY(int, Put) */ auto s = "ISTHMUS_ENTRY(int, Put)";\n'
        tree = Tree(suite, "comments", {"a.cpp": text})
        suite.expect(tree.generate())
        assert '"MPI_Put", false' in tree.coverage.read_text()

    refusals = {
        "an entry that mpi.h does not declare": (
            {"a.cpp": "\nISTHMUS_ENTRY(int, Putt)() {}\n"}, HEADER, r"a\.cpp:2: ISTHMUS_ENTRY of MPI_Putt"),
        "two entries of one function": (
            {"a.cpp": "ISTHMUS_ENTRY(int, Put)() {}\n", "b.cpp": "ISTHMUS_ENTRY(int, Put)() {}\n"}, HEADER,
            r"b\.cpp:1: MPI_Put has an entry already, at .*a\.cpp:1"),
        "an entry made by a macro": (
            {"a.cpp": "#define BOTH(name) ISTHMUS_ENTRY(int, name##_c)\n"}, HEADER, r"a\.cpp:1: write entries as"),
        "a function without a twin": ({}, HEADER.replace("MPI_TWIN_(Wtime)", ""), r"MPI_Wtime wants one MPI_TWIN_"),
        "a twin without a function": ({}, HEADER + "MPI_TWIN_(Get)\n", r"MPI_TWIN_\(Get\) stands for no function"),
        "a function declared twice": (
            {}, HEADER.replace("/* end", "double MPI_Wtime(void);\n/* end"), r"MPI_Wtime is declared 2 times"),
        "a header that cannot be read": (
            {}, HEADER.replace("/* end", "int MPI_Get(int;\n/* end"), r"chapter 'Second Things': cannot read 'int MPI_Get"),
    }  # fmt: skip
    for number, (name, (entries, header, message)) in enumerate(refusals.items()):
        with suite.case(f"the generator refuses {name}"):
            tree = Tree(suite, f"refusal-{number}", entries, header)
            suite.expect(tree.generate(), status=1, err=message)
            assert not tree.stubs.exists(), "it wrote a file all the same"
    with suite.case("mpi.h makes stubs for all of its functions"):
        tree = Tree(suite, "all", {}, (ROOT / "include/mpi.h").read_text())
        suite.expect(tree.generate())
        assert tree.stubs.read_text().count("ISTHMUS_ENTRY(") == tree.coverage.read_text().count(", false}") > 600
