"""include/mpi.h against the reference header: the same constants, types, functions and layout.

Each header is compiled into a program of its own that prints what it declares, in the words of the C++ compiler; the outputs must
be equal. Names of the reference that begin with MPIX_ are no part of the standard, and its library does not define them.
"""

import difflib
import re
import shutil

from suite import ROOT

PROGRAM = r"""
#include HEADER
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <type_traits>
#include <typeinfo>

template <class T>
static const char* type_name() {
  return abi::__cxa_demangle(typeid(T).name(), nullptr, nullptr, nullptr);
}

// The standard leaves open whether an integer constant is a macro or an enumerator.
template <class T>
static void constant(const char* name, T value) {
  if constexpr (std::is_pointer_v<T>)
    std::printf("constant %s = (%s) 0x%lx\n", name, type_name<T>(), reinterpret_cast<unsigned long>(value));
  else
    std::printf("constant %s = %lld, %zu bytes\n", name, static_cast<long long>(value), sizeof(T));
}

template <class T>
static void type(const char* name) {
  if constexpr (std::is_function_v<T>)
    std::printf("type %s = %s\n", name, type_name<T>());
  else
    std::printf("type %s = %s, %zu bytes, aligned to %zu\n", name, type_name<T>(), sizeof(T), alignof(T));
}

#define CONSTANT(name) constant(#name, name);
#define TYPE(name) type<name>(#name);
#define FUNCTION(name) std::printf("function %s: %s\n", #name, type_name<decltype(name)>());
#define FIELD(name) \
  std::printf("field %s: %s at %zu\n", #name, type_name<decltype(MPI_Status::name)>(), offsetof(MPI_Status, name));

int main() {
LINES
}
"""


def declared(suite, header):
    """The names that a header declares: constants, types, functions."""
    text = suite.run(["g++", "-E", "-P", "-x", "c++", header]).out
    macros = suite.run(["g++", "-E", "-dM", "-x", "c++", header]).out
    constants = set(re.findall(r"^#define (MPI_\w+) \S", macros, re.MULTILINE))
    for enumerators in re.findall(r"\benum\b[^{};]*\{([^}]*)\}", text):
        constants |= set(re.findall(r"\bMPI_\w+(?=\s*=)", enumerators))
    types = set()
    for declaration in re.findall(r"\btypedef\b[^;{]*(?:\{[^}]*\})?[^;]*;", text):
        name = re.search(r"\(\s*(MPI_\w+)\s*\)\s*\(", declaration) or re.search(r"\b(MPI_\w+)\s*;$", declaration)
        if name:
            types.add(name[1])
    functions = set(re.findall(r"\b(MPI_\w+)\s*\(", text))
    return constants, types, functions


def describe(suite, header, name):
    """What the header declares, a line each, by compiling and running a program."""
    constants, types, functions = declared(suite, header)
    functions |= {"P" + function for function in functions}
    fields = ("MPI_SOURCE", "MPI_TAG", "MPI_ERROR", "MPI_internal")
    calls = [
        f"  {macro}({each})"
        for macro, names in (("CONSTANT", constants), ("TYPE", types), ("FUNCTION", functions), ("FIELD", fields))
        for each in sorted(names)
    ]
    source = suite.tmp / f"{name}.cpp"
    source.write_text(PROGRAM.replace("LINES", "\n".join(calls)))
    program = suite.tmp / name
    suite.expect(suite.run(["g++", "-std=c++20", f'-DHEADER="{header}"', source, "-o", program], timeout=120))
    return suite.expect(suite.run([program])).out.splitlines()


def run(suite, prefix, reference):
    with suite.case("mpi.h declares what the reference header declares"):
        reference.require()
        # Under a name of its own: the reference header includes nothing, and must not find ours by chance.
        theirs_header = suite.tmp / "reference.h"
        shutil.copy(reference.header, theirs_header)
        ours = describe(suite, ROOT / "include/mpi.h", "ours")
        theirs = describe(suite, theirs_header, "theirs")
        for kind, at_least in (("constant", 300), ("type", 50), ("function", 1300), ("field", 4)):
            count = sum(line.startswith(kind) for line in theirs)
            assert count >= at_least, f"only {count} lines of kind '{kind}' were read from the reference header"
        difference = list(difflib.unified_diff(theirs, ours, "reference", "ours", n=0, lineterm=""))
        assert not difference, "\n".join(difference)
    with suite.case("the installed headers are those of the source tree"):
        chares = [path.relative_to(ROOT / "include") for path in (ROOT / "include/isthmus").glob("**/*.h*")]
        assert len(chares) >= 2, chares
        for name in ("mpi.h", "mpi-ext.h", *chares):
            installed, source = prefix / "include" / name, ROOT / "include" / name
            assert installed.read_bytes() == source.read_bytes(), f"{installed} differs from {source}"
