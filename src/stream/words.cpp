#include "stream/words.hpp"

#include <new>

namespace isthmus::stream {
namespace {

constexpr std::size_t block_bytes = std::size_t{256} << 10U;
constexpr std::size_t pairs_in_block = block_bytes / sizeof(WordPair);

}  // namespace

Words::~Words() {
  if (pair_) pool_->give_back(pair_);
}

Result<Words> WordPool::take() {
  std::unique_lock lock(mutex_);
  if (free_.empty()) {
    lock.unlock();
    ISTHMUS_TRY(grow());
    lock.lock();
  }
  WordPair* const pair = free_.back();
  free_.pop_back();
  return Words(shared_from_this(), pair, address_of(pair));
}

void WordPool::give_back(WordPair* pair) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!blocks_.empty()) free_.push_back(pair);
}

Result<> WordPool::grow() {
  auto pages = PinnedPages::make(*contexts_, device_, block_bytes);
  if (!pages) return std::unexpected(std::move(pages).error());
  Block block{.pages = std::move(*pages)};
  auto* const pairs = new (block.pages->span().data()) WordPair[pairs_in_block];
  const cuda::Functions& functions = contexts_->functions();
  const cuda::ContextScope scope(functions, context_);
  // Where it has no address of its own there, the host's is the GPU's: `Stream` tries it.
  if (functions.host_device_pointer(&block.address, pairs, 0) != cuda::Status::success)
    block.address = reinterpret_cast<cuda::Address>(pairs);
  const std::scoped_lock lock(mutex_);
  free_.reserve((blocks_.size() + 1) * pairs_in_block);
  blocks_.push_back(std::move(block));
  if (life_ == 0) life_ = contexts_->life(device_);
  // The first is taken first.
  for (std::size_t i = pairs_in_block; i > 0; --i)
    free_.push_back(pairs + i - 1);
  return {};
}

cuda::Address WordPool::address_of(const WordPair* pair) const noexcept {
  for (const Block& block : blocks_)
    if (pair >= block.first() && pair < block.first() + pairs_in_block)
      return block.address + static_cast<cuda::Address>(pair - block.first()) * sizeof(WordPair);
  return 0;
}

void WordPool::close() noexcept {
  std::vector<Block> blocks;
  {
    const std::scoped_lock lock(mutex_);
    blocks.swap(blocks_);
    free_.clear();
  }
  blocks.clear();  // pages are unpinned in the context
  const std::scoped_lock lock(mutex_);
  contexts_.reset();
}

bool WordPool::is_lost() noexcept {
  const std::scoped_lock lock(mutex_);
  return life_ != 0 && contexts_ && !contexts_->is_alive(device_, life_);
}

}  // namespace isthmus::stream
