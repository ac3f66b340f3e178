#pragma once

#include "base/error.hpp"

namespace isthmus {

/// A shared object of this installation that is loaded only by who needs it, because of what it is linked
/// with.
struct PluginObject {
  const char* file;           ///< below the folder `isthmus` beside the library: "libisthmus_network.so"
  const char* symbol;         ///< the one that it gives
  const char* role;           ///< for people: "the network library"
  const char* foreign;        ///< what it is linked with: "UCX"
  const char* build_package;  ///< Debian's, needed to build it
  const char* run_package;    ///< Debian's, needed to load it
};

/// Loads the object for the life of the process, since foreign libraries have threads, and returns its
/// symbol. It is looked for beside the library that holds this function, or for a program in the `lib` beside
/// the program's folder. Errors are sentences that say what is missing and what to install.
Result<const void*> load_plugin(const PluginObject& object);

/// The error of an object that was loaded and does not fit this library.
[[nodiscard]] std::unexpected<Error> foreign_plugin(const PluginObject& object);

}  // namespace isthmus
