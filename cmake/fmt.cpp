// Those functions of fmt 9 that are the same for all who call them, compiled once instead of into each file.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template auto dragonbox::to_decimal(float number) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double number) noexcept -> dragonbox::decimal_fp<double>;
template auto thousands_sep_impl(locale_ref locale) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref locale) -> char;
template void buffer<char>::append(const char* begin, const char* end);

}  // namespace detail
FMT_END_NAMESPACE
