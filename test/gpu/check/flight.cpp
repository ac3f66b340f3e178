// A hundred messages under way at a time, of all lengths, to and from memory at four places, in the orders in
// which programs start and await them.
#include <algorithm>
#include <array>
#include <memory>
#include <numeric>

#include "places.hpp"

namespace isthmus::gpu_check {
namespace {

constexpr int messages = 100;
enum class Form : std::uint8_t { receives_first, sends_first, wildcards, wait_any, test_some, matched };
constexpr std::array forms{Form::receives_first, Form::sends_first, Form::wildcards,
                           Form::wait_any,       Form::test_some,   Form::matched};
using Places = std::array<Place, 4>;

class Flight {
 public:
  Flight(const Setting& setting, const Places& places, Form form)
      : setting_(setting), form_(form), peer_(1 - setting.rank) {
    constexpr std::array<std::size_t, 10> sizes{0,     1,      8,       100,       4095,
                                                8'192, 65'536, 200'000, 1'048'579, 3'145'728};
    const auto number = static_cast<std::uint64_t>(form);
    for (std::size_t i = 0; i < messages; ++i) {
      const std::size_t choice = mix(i * 31 + number) % (setting.quick ? sizes.size() - 1 : sizes.size());
      lengths_.push_back(sizes[choice]);
      out_.push_back(std::make_unique<Region>(setting, places[i % 4], lengths_[i]));
      out_[i]->fill(seed(setting.rank, i), lengths_[i]);
      const std::size_t other = (i / 4 + static_cast<std::size_t>(setting.rank)) % 4;
      in_.push_back(std::make_unique<Region>(setting, places[other], lengths_[i]));
      in_[i]->clear();
    }
    order_.resize(messages);
    std::iota(order_.begin(), order_.end(), 0U);
    for (std::size_t i = messages - 1; i > 0; --i)
      std::swap(order_[i], order_[mix(i * 7 + number) % (i + 1)]);
  }

  void run() {
    start();
    finish_receives();
    expect_success(MPI_Waitall(messages, sends_.data(), MPI_STATUSES_IGNORE), "Waitall");
    // What was sent is what it was.
    for (std::size_t i = 0; i < messages; i += 9)
      expect(out_[i]->read(lengths_[i]) == pattern(seed(setting_.rank, i), lengths_[i]),
             "a send's memory was written");
  }

 private:
  [[nodiscard]] std::uint64_t seed(int sender, std::size_t tag) const {
    return mix(static_cast<std::uint64_t>(sender) * 5000 + tag * 13 + static_cast<std::uint64_t>(form_));
  }
  [[nodiscard]] int length(std::size_t i) const { return static_cast<int>(lengths_[i]); }
  void check(std::size_t i) const { in_[i]->expect(seed(peer_, i), lengths_[i], "a message of a hundred"); }

  void start() {
    if (form_ == Form::sends_first || form_ == Form::matched) {
      start_sends();
      if (form_ == Form::matched) return start_matched();
      MPI_Barrier(MPI_COMM_WORLD);
      return start_receives();
    }
    start_receives();
    MPI_Barrier(MPI_COMM_WORLD);
    start_sends();
  }
  void start_sends() {
    const auto send = form_ == Form::matched ? MPI_Issend : MPI_Isend;
    for (std::size_t i = 0; i < messages; ++i)
      expect_success(
          send(out_[i]->data(), length(i), MPI_BYTE, peer_, static_cast<int>(i), MPI_COMM_WORLD, &sends_[i]),
          "Isend");
  }
  void start_receives() {
    for (std::size_t i = 0; i < messages; ++i) {
      // From any source with any tag they match in the order in which they are sent.
      const bool any = form_ == Form::wildcards;
      const std::size_t tag = any ? i : order_[i];
      expect_success(
          MPI_Irecv(in_[tag]->data(), length(tag), MPI_BYTE, any || i % 3 != 0 ? MPI_ANY_SOURCE : peer_,
                    any ? MPI_ANY_TAG : static_cast<int>(tag), MPI_COMM_WORLD, &receives_[tag]),
          "Irecv");
    }
  }
  void start_matched() {
    for (std::size_t i = 0; i < messages; ++i) {
      const std::size_t tag = order_[i];
      MPI_Message message = MPI_MESSAGE_NULL;
      MPI_Status status;
      int found = i % 2 != 0 ? 0 : 1;
      if (found != 0) MPI_Mprobe(MPI_ANY_SOURCE, static_cast<int>(tag), MPI_COMM_WORLD, &message, &status);
      while (found == 0)
        MPI_Improbe(MPI_ANY_SOURCE, static_cast<int>(tag), MPI_COMM_WORLD, &found, &message, &status);
      int count = -1;
      MPI_Get_count(&status, MPI_BYTE, &count);
      CHECK_EQUAL(count, length(tag));
      expect_success(MPI_Imrecv(in_[tag]->data(), count, MPI_BYTE, &message, &receives_[tag]), "Imrecv");
    }
  }

  void finish_receives() {
    if (form_ == Form::wait_any) {
      for (int i = 0; i < messages; ++i) {
        int index = -1;
        expect_success(MPI_Waitany(messages, receives_.data(), &index, MPI_STATUS_IGNORE), "Waitany");
        check(static_cast<std::size_t>(index));  // as soon as it is said to be there
      }
    } else if (form_ == Form::test_some) {
      std::array<int, messages> indices{};
      for (int left = messages, done = 0; left > 0; left -= done) {
        expect_success(MPI_Testsome(messages, receives_.data(), &done, indices.data(), MPI_STATUSES_IGNORE),
                       "Testsome");
        for (int k = 0; k < done; ++k)
          check(static_cast<std::size_t>(indices[static_cast<std::size_t>(k)]));
      }
    } else {
      std::vector<MPI_Status> statuses(messages);
      expect_success(MPI_Waitall(messages, receives_.data(), statuses.data()), "Waitall");
      for (std::size_t i = 0; i < messages; ++i) {
        int count = -1;
        MPI_Get_count(&statuses[i], MPI_BYTE, &count);
        CHECK_EQUAL(count, length(i));
        CHECK_EQUAL(statuses[i].MPI_TAG, i);
        CHECK_EQUAL(statuses[i].MPI_SOURCE, peer_);
        check(i);
      }
    }
  }

  const Setting& setting_;
  const Form form_;
  const int peer_;
  std::vector<std::size_t> lengths_, order_;
  std::vector<std::unique_ptr<Region>> out_, in_;
  std::vector<MPI_Request> sends_ = std::vector<MPI_Request>(messages, MPI_REQUEST_NULL);
  std::vector<MPI_Request> receives_ = sends_;
};

}  // namespace

void check_flight(const Setting& setting) {
  using enum Place;
  constexpr std::array sets{Places{device, device, device, device}, Places{device, pinned, pageable, managed},
                            Places{default_pool, vmm, device_odd, other_gpu},
                            Places{pageable, pageable, device, device},
                            Places{managed, managed_host, shared_pool, private_vmm}};
  for (const Places& places : sets)
    for (const Form form : forms)
      Flight(setting, places, form).run();
}

}  // namespace isthmus::gpu_check
