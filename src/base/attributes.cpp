#include "base/attributes.hpp"

#include <algorithm>

namespace isthmus {

Result<std::optional<Keyval::Value>> Keyval::copy(std::uintptr_t handle, Value value) const {
  if (!copy_) return std::optional<Value>{};
  return copy_(handle, number_, value);
}

Result<> Keyval::destroy(std::uintptr_t handle, Value value) const {
  if (!destroy_) return {};
  return destroy_(handle, number_, value);
}

std::size_t AttributeSet::index_of(const Keyval& keyval) const noexcept {
  const auto found =
      std::ranges::find(attributes_, &keyval, [](const Attribute& a) { return a.keyval.get(); });
  return static_cast<std::size_t>(found - attributes_.begin());
}

std::optional<AttributeSet::Value> AttributeSet::find(const Keyval& keyval) const noexcept {
  const std::size_t index = index_of(keyval);
  if (index == attributes_.size()) return std::nullopt;
  return attributes_[index].value;
}

Result<> AttributeSet::set(const Ref<Keyval>& keyval, Value value, std::uintptr_t handle) {
  ISTHMUS_TRY(erase(*keyval, handle));
  // The delete callback may have set the same attribute again: the value that is asked for now wins.
  if (const std::size_t index = index_of(*keyval); index < attributes_.size())
    attributes_[index].value = value;
  else
    attributes_.push_back({keyval, value});
  return {};
}

Result<> AttributeSet::erase(const Keyval& keyval, std::uintptr_t handle) {
  const std::size_t index = index_of(keyval);
  if (index == attributes_.size()) return {};
  const Attribute attribute = attributes_[index];
  ISTHMUS_TRY(keyval.destroy(handle, attribute.value));
  // The callback may have changed the set: look again.
  const std::size_t now = index_of(keyval);
  if (now < attributes_.size() && attributes_[now].value == attribute.value)
    attributes_.erase(attributes_.begin() + static_cast<std::ptrdiff_t>(now));
  return {};
}

Result<> AttributeSet::clear(std::uintptr_t handle) {
  while (!attributes_.empty()) {
    const Ref<Keyval> last = attributes_.back().keyval;
    ISTHMUS_TRY(erase(*last, handle));
  }
  return {};
}

Result<> AttributeSet::copy_to(AttributeSet& copy, std::uintptr_t handle) const {
  const std::vector<Attribute> originals = attributes_;
  for (const Attribute& original : originals) {
    Result<std::optional<Value>> value = original.keyval->copy(handle, original.value);
    if (!value) return std::unexpected(std::move(value).error());
    if (*value) copy.attributes_.push_back({original.keyval, **value});
  }
  return {};
}

}  // namespace isthmus
