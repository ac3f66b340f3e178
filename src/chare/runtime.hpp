#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "chare/checkpoint/checkpoint_file.hpp"
#include "chare/checkpoint/memory_checkpoint.hpp"
#include "chare/collection.hpp"
#include "chare/data/data_messages.hpp"
#include "chare/items.hpp"
#include "chare/message.hpp"
#include "chare/nodes.hpp"
#include "chare/quiescence.hpp"
#include "chare/transport.hpp"

namespace isthmus::chare {

/// Message-driven objects in one process: chares, and the scheduler that calls their entries one after
/// another. What a chare is of, only the program knows (`isthmus_chare_item`).
///
/// All records of other processes are checked before anything is done with them; what does not fit ends the
/// job by `Fail`. Threading: one thread, which takes the engine's lock only while it sends and looks for
/// messages.
class Runtime final : private Transport::Receiver, private DataMessages::Listener {
 public:
  using Target = isthmus_chare_target;

  /// Collective over `comm`, which the chares get a duplicate of. `fail` ends the job.
  static Result<std::unique_ptr<Runtime>> make(Communicator& comm, std::span<Item* const> items, Fail fail);
  ~Runtime();

  [[nodiscard]] std::uint32_t rank() const noexcept { return transport_.rank(); }
  /// How many processes have chares: those of the lowest ranks.
  [[nodiscard]] std::uint32_t size() const noexcept { return used_; }
  [[nodiscard]] const Nodes& nodes() const noexcept { return nodes_; }
  /// How many there are.
  [[nodiscard]] std::uint32_t processes() const noexcept { return transport_.size(); }
  [[nodiscard]] Element* self() const noexcept { return self_; }
  [[nodiscard]] const Item* making() const noexcept { return making_; }
  [[nodiscard]] const Item* current() const noexcept { return current_ ? current_->item : nullptr; }

  // As the functions of <isthmus/chare_runtime.h>.

  int run(void (*start)(void*), void* context);
  int work_some(std::uint32_t turns, bool is_idle);
  int finish();
  /// `ready()` is called between looks, with the engine's lock held.
  template <class Ready>
  void wait(std::uint64_t microseconds, Ready&& ready) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
    transport_.wait_or(
        [&] { return data_.has_news() || ready() || std::chrono::steady_clock::now() >= until; });
  }
  [[nodiscard]] bool sleeps() const noexcept { return transport_.sleeps(); }
  void* keep() noexcept;
  void release(void* kept) noexcept {
    auto* const message = static_cast<Message*>(kept);
    if (message == current_)
      message->kept = false;  // the entry is still at work
    else
      pool_.give_back(message);
  }
  int restart(const std::string& path);
  void checkpoint(const std::string& path, const Callback& written, const Callback& restarted);
  void checkpoint_in_memory(const Callback& written, const Callback& restarted);
  Result<> begin_in(std::uint32_t processes);
  void resize(std::uint32_t processes, const Callback& done);
  void when_going_back(void (*forget)()) noexcept { forget_ = forget; }
  /// How often this process has gone back to a checkpoint in memory.
  [[nodiscard]] std::uint32_t rollbacks() const noexcept { return rollbacks_; }
  void exit(int code);
  [[noreturn]] void fail(std::string_view reason, const char* entry = nullptr);
  Element* find(std::uint64_t collection, Index index) {
    Collection* const found = find_collection(collection);
    return found ? found->find(index) : nullptr;
  }
  void* take(std::size_t bytes) { return pool_.take(bytes)->data(); }
  void post(Element* element, const Item* item, void* arguments, std::int32_t priority);
  std::byte* begin(const Target& target, const Item* item, std::size_t bytes, std::int32_t priority);
  std::byte* begin_with(const Target& target, const Item* item, std::size_t bytes, std::int32_t priority,
                        std::span<const Buffer> buffers);
  void send();
  void copy(void* to, const void* from, std::size_t bytes);
  [[nodiscard]] DataMessages& data() noexcept { return data_; }
  void send_to_mailbox(std::uint64_t mailbox, const Buffer& buffer);
  void flush() { transport_.flush(); }
  std::uint64_t create(const Shape& shape, const Item* type, const Item* constructor,
                       std::span<const std::byte> arguments);
  void insert(std::uint64_t id, Index index, std::uint32_t to, const Item* constructor,
              std::span<const std::byte> arguments);
  void done_inserting(std::uint64_t id);
  void destroy(Element& element);
  void hold(Element& element, int change);
  void migrate(Element& element, std::uint32_t to);
  void resume(Element* element, void (*step)(void*), void* context);
  void at_sync(Element& element, const Item* next, const Item* balancer);
  void balance_now(std::uint64_t id, const Item* balancer, const Callback& callback);
  void set_load(Element& element, double seconds);
  void contribute(Element& element, const Item* reducer, const void* value, const Callback& callback);
  void call(const Callback& callback, std::span<const std::byte> value);
  void quiescence(const Callback& callback);

 private:
  Runtime(const Ref<Communicator>& comm, Items items, const Tags& tags, Fail fail);
  [[nodiscard]] bool is_broken() const noexcept { return transport_.is_broken() || data_.is_broken(); }

  // runtime.cpp: the scheduler
  static Result<> compare(Communicator& comm, const Items& items);
  int work();
  void do_one(Message* message);
  bool rest(bool is_idle);
  void execute(Message* message);
  void execute_invocation(Message* message);
  void call_entry(Element& element, Message& message);
  void call_item(Element* element, Message& message);
  void end_message(Message* message);
  void enqueue(Message* message) { queue_.push(message); }
  Element* turn_to(Element* next);
  [[nodiscard]] std::string describe(const char* entry);

  // records.cpp: what comes, and what goes
  void came(std::uint32_t source, const Record& record) override;
  void came(std::uint32_t source, const Record& record, Message* message) override;
  void take_control(std::uint32_t source, const Record& record);
  Message* make_message(std::uint32_t source, const Record& record, std::uint64_t bytes);
  void fill(Message& message, std::uint32_t source, const Record& record);
  std::byte* begin_record(std::uint32_t to, const Record& record, std::uint64_t bytes);
  void finish_record();
  void send_record(std::uint32_t to, const Record& record, std::span<const std::byte> payload);
  void send_down(std::uint32_t root, const Record& record, std::span<const std::byte> payload);
  bool execute_record(Message& message);
  std::uint32_t destination(const Target& target, Record& record);
  const Item& item_of(std::uint32_t number, std::uint32_t kind);
  Collection* find_collection(std::uint64_t id) noexcept;
  Collection* collection_or_wait(Message& message);
  void need_root(const Collection& collection);
  [[nodiscard]] std::uint32_t whereabouts(Collection& collection, Index index) const;
  Element* route(Message* message);
  static Record record_of(const Message& message);
  void pass_on(Message* message, std::uint32_t to);
  [[nodiscard]] std::string stuck() const;

  // buffers.cpp
  void need_marks(Message& message, std::uint32_t source);
  std::byte* begin_marked(std::uint32_t to, const Record& record, std::size_t bytes,
                          std::span<const Buffer> buffers, bool says_count);
  void send_buffers();
  void execute_with(Message* message);
  void ask_where(Message& message, Incoming& incoming, std::span<const std::uint64_t> sizes);
  void take_packed(Message& message, Incoming& incoming);
  void take_local(Message& message, Incoming& incoming);
  void finish_with(Message* message);
  std::unique_ptr<Incoming> end_incoming(Message* message);
  void pass_data_on(Message* message, std::uint32_t to);
  void forward(Message* message, Incoming& incoming);
  Incoming& await_data(Message* message, Element* element);
  void arrived(Incoming& incoming) override;
  void invoke(const Callback& callback, const std::uint64_t* value) override;
  [[noreturn]] void failed(const Incoming* incoming, std::string_view reason) override;
  bool retry_postponed();

  // collections.cpp
  void make_collection(Message& message);
  void found(std::uint64_t id, std::span<const std::byte> text);
  Element& make_element(Collection& collection, Index index, const Item& constructor,
                        std::span<const std::byte> arguments);
  static bool is_there(const Collection& collection, Index index);
  void do_insert(Collection& collection, Message& message);
  void do_located(Collection& collection, Message& message);
  void release_kept(Collection& collection, Index index);
  void end_element(Element& element);
  void ask_broadcast(Collection& collection, Message& message);
  void broadcast(Message* message);
  void deliver_broadcast(Collection& collection, Message& message);

  // migration.cpp
  /// What the chare does where it comes to, beside living on.
  struct OnArrival {
    std::uint32_t next = 0;        ///< 1 + the entry that it goes on with; 0: none
    std::uint32_t round = 0;       ///< of balancing that this is
    std::uint32_t tells_root = 0;  ///< 1: that it has moved
  };
  void need_movable(const Element& element);
  void finish_entry(Element& element);
  void move_element(Element& element, std::uint32_t to, OnArrival then);
  void do_migrate(Collection& collection, Message& message);
  void do_arrived(Collection& collection, Message& message);
  void log_broadcast(Collection& collection, std::uint32_t number, const Message& message,
                     std::span<const std::byte> payload);
  void pass_broadcast_on(Collection& collection, Index index, std::uint32_t number, const Kept& broadcast);
  void hold_broadcast(Element& element, std::uint32_t number, Message& message);
  void execute_passed(Message* message);
  void deliver_held(Collection& collection, Index index);
  void tell_home(Collection& collection, Index index, const Location& where);
  void learn(Collection& collection, Index index, const Location& where) const;

  // balance.cpp
  void need_same_sync(const Collection& collection, const Item* next, const Item* balancer,
                      const Item* other_next, const Item* other_balancer);
  void send_loads(Collection& collection);
  bool send_syncs();
  void do_loads(Collection& collection, Message& message);
  void look_at_sync(Collection& collection);
  std::uint64_t place(Collection& collection, std::vector<isthmus_chare_load>& loads, const Item& balancer,
                      std::uint64_t next);
  void do_moves(Collection& collection, Message& message);
  void move_synced(Collection& collection, Message& message, const Item& next);
  void arrive_synced(Element& element, const Item& next, std::uint32_t round);
  void go_on(const Element& element, const Item& next);
  void ask_balance(Collection& collection, Message& message);
  void answer_loads(Collection& collection, const Message& message);
  void tell_moved(const Collection& collection, std::uint64_t count);
  void do_moved(Collection& collection, Message& message);
  void end_balance(Collection& collection);

  // checkpoint/checkpoint.cpp
  struct Checkpoint;
  struct DeleteCheckpoint {
    void operator()(Checkpoint* checkpoint) const noexcept;
  };
  void ask_checkpoint(Message& message);
  void go_on_quiet(const std::vector<Callback>& quiet);
  void begin_checkpoint();
  std::string why_not_saved(Collection& collection, bool is_written);
  Result<SavedPart> save_chares(const std::string& name);
  void save(Message& message);
  void do_saved(Message& message);
  void end_checkpoint();
  void tell_checkpoint();
  const Item& restarted_item();
  void restore_collection(const SavedCollection& saved);
  void send_restored(std::uint32_t to, std::uint32_t type, Index index, const SavedChare& chare,
                     std::span<const std::byte> data);
  [[nodiscard]] std::uint32_t count_of(const Shape& group) const noexcept;
  Result<> send_saved(const SavedChare& chare, std::span<const std::byte> data, std::uint32_t part,
                      std::uint32_t writers, std::uint64_t before);
  void restore(Collection& collection, Message& message);
  void restore_element(Collection& collection, Index index, const SavedChare& chare,
                       std::span<const std::byte> data);

  // checkpoint/in_memory.cpp
  std::string save_in_memory(std::uint64_t generation);
  void send_copy(std::uint64_t generation, const MemoryPart& part);
  void take_copy(Message* message);
  void do_copied(Message& message);
  void commit(Message& message);
  void do_committed(Message& message);
  void drop(Message& message);
  void end_memory_checkpoint();

  // checkpoint/resize.cpp
  void begin_resize();
  void resize_here(Message& message);
  void do_resized(Message& message);
  void spread(Message& message);
  std::vector<Element*> leaving(Collection& collection, std::uint32_t from) const;
  void copy_to(Element& element, std::uint32_t to, Index index);
  void give_away(Element& element, std::uint32_t to);
  void end_quietly(Element& element);

  // checkpoint/recovery.cpp
  struct Meeting;
  Result<> find_nodes(Communicator& comm);
  void recover();
  void meet_survivors(Meeting& meeting);
  Result<> meet(Meeting& meeting);
  static Result<> put_in_order(Meeting& meeting);
  Result<> copy_again(const Meeting& meeting);
  Result<> exchange_copies(std::span<const MissingCopy> missing, std::span<const MemoryPart> copies) const;
  [[nodiscard]] const MemoryPart& kept_part(std::uint32_t writer) const;
  [[nodiscard]] std::optional<std::uint32_t> heir_of(std::uint32_t writer, const MemoryHead& head) const;
  [[noreturn]] void fail_together(std::string_view reason);
  void go_on_among(const Meeting& meeting);
  void go_back(const Meeting& meeting);
  void restore_part(const MemoryPart& part, const MemoryHead& head, std::span<const std::uint32_t> nodes);
  [[nodiscard]] Callback moved(const Callback& callback, const MemoryHead& head) const;
  void forget_all();

  // reductions.cpp
  void merge(Collection& collection, std::uint32_t number, Reduction& into, const Item* reducer,
             const Callback& callback, void* value);
  void list_partial(Collection& collection, std::uint32_t number, Reduction& reduction);
  void send_up(Collection& collection, std::uint32_t number);
  bool send_partials();
  void do_partial(Collection& collection, Message& message);
  void arrive(Collection& collection, std::uint32_t number, const Reduction& part);
  void look_at_results(Collection& collection);
  void begin_census(Collection& collection);
  void answer_census(Collection& collection, Message& message);
  void add_census(Collection& collection, Message& message);

  // quiet.cpp
  void ask_quiet(Message& message);
  void begin_wave();
  bool answer_wave();
  void add_answer(const Record& record);
  void add(const WorkCount& count, std::string_view why);

  struct Census {
    std::uint32_t missing = 0;
    std::uint64_t sent = 0;
    std::uint64_t done = 0;
    std::uint64_t done_before = ~std::uint64_t{0};
  };

  Ref<Communicator> comm_;
  Items items_;
  Fail fail_;
  MessagePool pool_;
  MessageQueue queue_;
  Transport transport_;
  DataMessages data_;
  std::vector<std::unique_ptr<Incoming>> incoming_;
  std::vector<std::unique_ptr<Incoming>> spare_;  ///< with memory for the next ones
  struct Unsent {
    std::uint64_t tag;
    Buffer buffer;
    Callback sent;
  };
  std::vector<Unsent> unsent_;  ///< of the record that has been begun
  std::uint32_t unsent_to_ = 0;
  std::vector<Message*> postponed_;  ///< with buffers, for chares that are about to leave
  std::uint64_t executed_ = 0;       ///< messages
  std::uint64_t postponed_at_ = 0;   ///< so many, when those were looked at
  std::unordered_map<std::uint64_t, std::unique_ptr<Collection>> collections_;
  std::array<Collection*, 8> recent_{};                             ///< by the low bits of their ids
  std::unordered_map<std::uint64_t, std::vector<Message*>> early_;  ///< for collections that are not here yet
  std::uint32_t next_collection_ = 1;                               ///< 0 is none
  std::uint32_t used_;                                              ///< processes that have chares
  std::uint32_t roots_;  ///< processes that may have made collections: more than there are after a restart
  std::unordered_map<std::uint64_t, Census> censuses_;
  std::unique_ptr<Checkpoint, DeleteCheckpoint> checkpoint_;  ///< process 0: that is being written
  MemoryCheckpoints memory_;
  std::uint64_t memory_generation_ = 0;  ///< process 0: of the latest
  std::uint32_t rollbacks_ = 0;
  void (*forget_)() = nullptr;            ///< what waits in the program
  std::vector<std::uint32_t> node_keys_;  ///< by process: the lowest rank in the world that shares its memory
  Nodes nodes_;                           ///< of the processes that have chares

  // What is being done.
  Element* self_ = nullptr;
  Message* current_ = nullptr;
  const Item* making_ = nullptr;                  ///< a constructor that is at work
  const Item* balancing_ = nullptr;               ///< a balancer that is
  bool packs_ = false;                            ///< the chare is being written, to move
  std::chrono::steady_clock::time_point turned_;  ///< to what is being done
  std::uint64_t turn_ = 0;
  std::vector<std::uint64_t> sent_in_turn_;  ///< by process: the turn of the last record that went at once
  Message* begun_here_ = nullptr;            ///< by `begin_record`, for this process
  bool begun_now_ = false;

  std::vector<std::pair<Collection*, std::uint32_t>> partials_;  ///< that have not been sent up
  std::vector<Collection*> syncs_;                               ///< with loads that have not been sent
  WorkCount count_;
  Quiescence quiescence_;
  bool wave_wanted_ = false;
  bool ends_ = false;
  int exit_code_ = 0;
};

}  // namespace isthmus::chare
