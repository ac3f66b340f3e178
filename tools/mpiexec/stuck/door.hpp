#pragma once

#include <list>
#include <string>

#include "base/unique_fd.hpp"
#include "streams/attendant.hpp"

namespace isthmus::mpiexec::stuck {

/// Where `isthmus stuck` asks: a UNIX socket with an abstract name, which ends with mpiexec. Whoever connects
/// as mpiexec's user, or as root, gets the report and then the end of the connection; all others get nothing.
class Door final : public Attendant {
 public:
  /// Who asks has to be answered, now or later.
  class Asked {
   public:
    virtual void asked(Door& door) = 0;

   protected:
    ~Asked() = default;
  };
  explicit Door(Asked& asked) : asked_(asked) {}

  /// Why it could not be opened; empty: it is open.
  std::string open();
  /// All who have asked so far get `text`.
  void answer(const std::string& text);

  void prepare(std::vector<pollfd>& waited_for) const override;
  void react() override;
  [[nodiscard]] std::optional<Clock::time_point> deadline() const override;

 private:
  struct Client {
    UniqueFd socket;
    Clock::time_point end;
    bool answered = false;
    std::string unsent{};
  };
  /// Whether it is done.
  static bool serve(Client& client);

  Asked& asked_;
  UniqueFd listener_;
  std::list<Client> clients_;
};

}  // namespace isthmus::mpiexec::stuck
