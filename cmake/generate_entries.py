"""Writes what follows from comparing include/mpi.h with the entries in src/abi/:

stubs     a C++ file with an entry for every function of mpi.h that has none: it raises MPI_ERR_UNSUPPORTED_OPERATION;
coverage  a C++ file with the table of src/abi/core/coverage.hpp.

The header's side: comments of the form "chapter: TITLE" open the groups of prototypes, "end of chapters" closes the last one.
The entries' side: ISTHMUS_ENTRY(type, Name) defines MPI_Name (src/abi/core/entry.hpp).

Run by CMake (GenerateEntries.cmake). A file is written only if its content changes, so that nothing is compiled in vain.
"""

import argparse
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

CHAPTER = re.compile(r"^/\* chapter: (.+?) \*/$", re.MULTILINE)
END_OF_CHAPTERS = "/* end of chapters */"
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
PROTOTYPE = re.compile(r"(\w[\w ]*?)\s*\bMPI_(\w+)\s*\(([^()]*)\)\s*;")
TWIN = re.compile(r"\bMPI_TWIN_\((\w+)\)")
PARAMETER = re.compile(r"(?P<type>.*[\s*])(?P<name>\w+)(?P<array>(?:\[\d*\])*)")
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
ENTRY = re.compile(r"\bISTHMUS_ENTRY\b\s*(?:\(\s*[\w\s*]+?\s*,\s*(\w+)\s*\))?")

GENERATED = "// Made by cmake/generate_entries.py from include/mpi.h and src/abi. Do not edit.\n\n"


class Mistake(Exception):
    """What is wrong with the sources, for the person who builds."""


@dataclass(frozen=True)
class Parameter:
    type: str  # without the name: "const int []"
    name: str


@dataclass(frozen=True)
class Function:
    chapter: str
    type: str
    name: str  # without "MPI_"
    parameters: tuple[Parameter, ...]


def read_parameter(text: str, function: str) -> Parameter:
    text = " ".join(text.split())
    if text in ("void", "..."):
        return Parameter(text, "")
    match = PARAMETER.fullmatch(text)
    if not match:
        raise Mistake(f"MPI_{function}: cannot read the parameter '{text}'")
    return Parameter(match["type"].strip() + (" " + match["array"] if match["array"] else ""), match["name"])


def read_header(text: str) -> list[Function]:
    if END_OF_CHAPTERS not in text:
        raise Mistake(f"there is no '{END_OF_CHAPTERS}'")
    prototypes, rest = text.split(END_OF_CHAPTERS, 1)
    pieces = CHAPTER.split(prototypes)
    functions = []
    for chapter, group in zip(pieces[1::2], pieces[2::2]):
        group = COMMENT.sub(" ", group)
        for kind, name, parameters in PROTOTYPE.findall(group):
            functions.append(Function(chapter, kind, name, tuple(read_parameter(p, name) for p in parameters.split(","))))
        left_over = " ".join(PROTOTYPE.sub(" ", group).split())
        if left_over:
            raise Mistake(f"chapter '{chapter}': cannot read '{left_over[:100]}'")
    if not functions:
        raise Mistake("there are no prototypes behind 'chapter: TITLE' comments")
    declared, twins = Counter(f.name for f in functions), Counter(TWIN.findall(rest.replace("MPI_TWIN_(name)", "")))
    for name, times in declared.items():
        if times > 1:
            raise Mistake(f"MPI_{name} is declared {times} times")
        if twins[name] != 1:
            raise Mistake(f"MPI_{name} wants one MPI_TWIN_({name}), there are {twins[name]}")
    for name in twins:
        if name not in declared:
            raise Mistake(f"MPI_TWIN_({name}) stands for no function")
    return functions


def read_entries(path: Path) -> list[tuple[str, str]]:
    """(name, place) of every ISTHMUS_ENTRY in a source file."""
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    code = NOT_CODE.sub(blank, path.read_text())
    entries = []
    for match in ENTRY.finditer(code):
        place = f"{path}:{code.count(chr(10), 0, match.start()) + 1}"
        if not match[1]:
            raise Mistake(f"{place}: write entries as ISTHMUS_ENTRY(type, Name), this one cannot be read")
        entries.append((match[1], place))
    return entries


def find_implemented(sources: list[Path], functions: list[Function]) -> set[str]:
    known = {f.name for f in functions}
    places: dict[str, str] = {}
    for path in sorted(sources):
        for name, place in read_entries(path):
            if name not in known:
                raise Mistake(f"{place}: ISTHMUS_ENTRY of MPI_{name}, which include/mpi.h does not declare")
            if name in places:
                raise Mistake(f"{place}: MPI_{name} has an entry already, at {places[name]}")
            places[name] = place
    return set(places)


def stub(function: Function) -> str:
    """The entry of a function that is not implemented. Errors go to the error handler of the call's communicator where it has
    one. Functions of the tool interface call no error handler (MPI 5.0, section 15.3.10)."""
    quoted = f'"MPI_{function.name}"'
    communicator = next((p for p in function.parameters if p.type == "MPI_Comm"), None)
    raised = f"unsupported({quoted}, {communicator.name})" if communicator else f"unsupported({quoted})"
    if function.name.startswith("T_"):
        body = "return MPI_T_ERR_NOT_SUPPORTED;"
    elif function.type == "int" and not function.name.endswith("_toint"):
        body = f"return {raised};"
    elif function.type in ("int", "double", "MPI_Aint"):
        body = f"{raised};\n  return 0;"
    else:
        body = f"{raised};\n  return {function.type.upper()}_NULL;"
    parameters = ", ".join(f"{p.type} {p.name}" if p is communicator else p.type for p in function.parameters)
    return f"ISTHMUS_ENTRY({function.type}, {function.name})({parameters}) {{\n  {body}\n}}\n"


def stubs_file(functions: list[Function], implemented: set[str]) -> str:
    stubs = [stub(f) for f in functions if f.name not in implemented]
    return (
        GENERATED + '#include "abi/core/entry.hpp"\n#include "abi/core/error.hpp"\n\nnamespace isthmus::abi {\n\n'
        + "\n".join(stubs) + "\n}  // namespace isthmus::abi\n"
    )


def coverage_file(functions: list[Function], implemented: set[str]) -> str:
    rows = [
        f'    {{"{f.chapter}", "MPI_{f.name}", {"true" if f.name in implemented else "false"}}},\n' for f in functions
    ]
    return (
        GENERATED + '#include "abi/core/coverage.hpp"\n\nnamespace isthmus::abi {\n\nnamespace {\n'
        + "constexpr CoverageRow rows[] = {\n" + "".join(rows) + "};\n}  // namespace\n\n"
        + "std::span<const CoverageRow> coverage() noexcept { return rows; }\n\n}  // namespace isthmus::abi\n"
    )


def write_if_changed(path: Path, content: str) -> None:
    if path.is_file() and path.read_text() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--header", type=Path, required=True, help="include/mpi.h")
    parser.add_argument("--entries", type=Path, required=True, help="the folder whose *.cpp files, and those of its sub-folders, hold the entries")
    parser.add_argument("--stubs", type=Path, required=True, help="the file of stubs to write")
    parser.add_argument("--coverage", type=Path, required=True, help="the file with the coverage table to write")
    arguments = parser.parse_args()
    try:
        try:
            functions = read_header(arguments.header.read_text())
        except Mistake as mistake:
            raise Mistake(f"{arguments.header}: {mistake}") from None
        implemented = find_implemented(list(arguments.entries.rglob("*.cpp")), functions)
    except Mistake as mistake:
        print(f"error: {mistake}", file=sys.stderr)
        return 1
    write_if_changed(arguments.stubs, stubs_file(functions, implemented))
    write_if_changed(arguments.coverage, coverage_file(functions, implemented))
    return 0


if __name__ == "__main__":
    sys.exit(main())
