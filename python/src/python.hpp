#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

namespace isthmus::python {

namespace nb = nanobind;

/// Throws the Python exception that is set.
[[noreturn]] inline void raise_set() {
  throw nb::python_error();
}
/// Owns a new reference that a function of Python's has returned; null: throws what it has set.
[[nodiscard]] inline nb::object own(PyObject* made) {
  if (!made) raise_set();
  return nb::steal(made);
}

/// A raised exception with its traceback, as Python would print it; the exception is cleared.
std::string take_error_text();
/// The exception that is set, which is cleared; with its traceback.
nb::object take_error();
/// `traceback.format_exception`.
std::string text_of(nb::handle exception);

}  // namespace isthmus::python
