#include "python.hpp"

namespace isthmus::python {

nb::object take_error() {
#if PY_VERSION_HEX >= 0x030c0000
  return nb::steal(PyErr_GetRaisedException());
#else
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return nb::steal(value);
#endif
}

std::string text_of(nb::handle exception) {
  try {
    const nb::object lines = nb::module_::import_("traceback").attr("format_exception")(exception);
    return nb::cast<std::string>(nb::str("").attr("join")(lines));
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("the text of an exception");
    return "an exception whose text cannot be made";
  }
}

std::string take_error_text() {
  return text_of(take_error());
}

}  // namespace isthmus::python
