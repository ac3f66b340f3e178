#include "vrank/program_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/system/memory_file.hpp"

namespace isthmus::vrank {
namespace {

constexpr std::uint64_t most_aligned = 64;
constexpr const char* is_static = "it is linked statically; link it with shared libraries (without -static)";
constexpr unsigned char unique_binding = 10;  // STB_GNU_UNIQUE

/// Variables of the C and C++ libraries of which a program may have its own: what they hold stays the same,
/// or is looked after (`RankCopy`).
constexpr std::array harmless{"stdin",
                              "stdout",
                              "stderr",
                              "environ",
                              "__environ",
                              "_environ",
                              "optarg",
                              "optind",
                              "opterr",
                              "optopt",
                              "_ZSt4cout",
                              "_ZSt4cerr",
                              "_ZSt4clog",
                              "_ZSt3cin",
                              "_ZSt5wcout",
                              "_ZSt5wcerr",
                              "_ZSt5wclog",
                              "_ZSt4wcin",
                              "_ZSt7nothrow",
                              "program_invocation_name",
                              "__libc_single_threaded",
                              "in6addr_any",
                              "__progname",
                              "in6addr_loopback",
                              "program_invocation_short_name"};

/// Tables of C++ types, which nobody writes to.
constexpr std::array<std::string_view, 4> type_tables{"_ZTI", "_ZTV", "_ZTS", "_ZTT"};

std::unexpected<Error> cannot(const std::string& path, const std::string& why) {
  return fail(
      ErrorClass::other,
      path + " cannot be loaded several times into one process (mpiexec --ranks-per-process): " + why);
}

bool is_harmless(std::string_view name) {
  return std::ranges::find(harmless, name) != harmless.end() ||
         std::ranges::any_of(type_tables, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

Result<ProgramFile> ProgramFile::open(const std::string& path, std::size_t thread_local_room) {
  ProgramFile file;
  ISTHMUS_TRY(file.read(path));
  ISTHMUS_TRY(file.check_kind(path, thread_local_room));
  ISTHMUS_TRY(file.read_dynamic(path));
  file.prepare_copy();
  return file;
}

std::string_view ProgramFile::text(std::uint64_t offset) {
  if (offset >= string_bytes_) return {};
  const char* const found = image().at<char>(strings_ + offset, string_bytes_ - offset);
  return found ? std::string_view(found, ::strnlen(found, string_bytes_ - offset)) : std::string_view();
}

Result<> ProgramFile::read(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0)
    return fail(ErrorClass::other, path + ": " + std::generic_category().message(errno));
  if ((status.st_mode & (S_ISUID | S_ISGID)) != 0)
    return cannot(path,
                  "it runs with the rights of another user or group (setuid, setgid), and a copy would not");
  std::ifstream file(path, std::ios::binary);
  bytes_.resize(static_cast<std::size_t>(status.st_size));
  file.read(reinterpret_cast<char*>(bytes_.data()), static_cast<std::streamsize>(bytes_.size()));
  if (!file || file.gcount() != status.st_size) return fail(ErrorClass::other, path + " cannot be read");
  if (bytes_.size() > 2 && std::memcmp(bytes_.data(), "#!", 2) == 0)
    return cannot(path, "it is a script, and only compiled programs can be; start it without the option");
  if (bytes_.size() < sizeof(Elf64_Ehdr) || std::memcmp(bytes_.data(), ELFMAG, SELFMAG) != 0)
    return cannot(path, "it is no compiled program (ELF)");
  return {};
}

Result<> ProgramFile::check_kind(const std::string& path, std::size_t thread_local_room) {
  const auto* const header = reinterpret_cast<const Elf64_Ehdr*>(bytes_.data());
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64)
    return cannot(path, "it is no program for x86-64");
  if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phoff > bytes_.size() ||
      header->e_phnum > (bytes_.size() - header->e_phoff) / sizeof(Elf64_Phdr))
    return cannot(path, "its file is damaged");
  bool is_dynamic = false, has_interpreter = false;
  std::uint64_t end = 0;
  for (const Elf64_Phdr& segment : image().segments()) {
    if (segment.p_offset > bytes_.size() || segment.p_filesz > bytes_.size() - segment.p_offset)
      return cannot(path, "its file is cut off");
    is_dynamic = is_dynamic || segment.p_type == PT_DYNAMIC;
    has_interpreter = has_interpreter || segment.p_type == PT_INTERP;
    end = std::max(end, segment.p_offset + segment.p_filesz);
  }
  if (!is_dynamic) return cannot(path, is_static);
  if (header->e_type == ET_EXEC)
    return cannot(
        path,
        "it can lie at one address only; compile it with -fPIE and link it with -pie (without -no-pie)");
  entry_ = has_interpreter ? header->e_entry : 0;
  for (const Elf64_Phdr& segment : image().segments()) {
    if (segment.p_type != PT_TLS || !is_executable() || segment.p_memsz == 0) continue;
    const std::uint64_t align = std::max<std::uint64_t>(segment.p_align, 1);
    const std::uint64_t room = (segment.p_memsz + align - 1) / align * align;
    if (align > most_aligned || room > thread_local_room)
      return cannot(path, "its thread-local variables take " + std::to_string(room) + " bytes, aligned to " +
                              std::to_string(align) + ", and there is room for " +
                              std::to_string(thread_local_room) + " aligned to " +
                              std::to_string(most_aligned) +
                              "; make it a shared object with a function main: mpicc -fPIC -shared");
    thread_locals_.bytes = room;
  }
  bytes_.resize(end);
  bytes_.shrink_to_fit();
  for (const Elf64_Phdr& segment : image().segments())
    if (segment.p_type == PT_TLS && thread_locals_.bytes != 0)
      thread_locals_.image = std::span(bytes_).subspan(segment.p_offset, segment.p_filesz);
  return {};
}

Result<> ProgramFile::read_dynamic(const std::string& path) {
  const auto dynamic = std::ranges::find(image().segments(), Elf64_Word{PT_DYNAMIC}, &Elf64_Phdr::p_type);
  const std::size_t entries = dynamic->p_filesz / sizeof(Elf64_Dyn);
  const auto* const table = reinterpret_cast<const Elf64_Dyn*>(bytes_.data() + dynamic->p_offset);
  std::uint64_t run_path = 0;
  std::vector<std::uint64_t> needed;
  for (std::size_t i = 0; i < entries && table[i].d_tag != DT_NULL; ++i) {
    const std::uint64_t value = table[i].d_un.d_val;
    const std::uint64_t value_at = dynamic->p_offset + i * sizeof(Elf64_Dyn) + offsetof(Elf64_Dyn, d_un);
    switch (table[i].d_tag) {
      case DT_STRTAB:
        strings_ = value;
        break;
      case DT_STRSZ:
        string_bytes_ = value;
        break;
      case DT_SYMTAB:
        tables_.symbols = value;
        break;
      case DT_RELA:
        tables_.relocations.address = value;
        break;
      case DT_RELASZ:
        tables_.relocations.bytes = value;
        break;
      case DT_JMPREL:
        tables_.jumps.address = value;
        break;
      case DT_PLTRELSZ:
        tables_.jumps.bytes = value;
        break;
      case DT_RELR:
        tables_.packed.address = value;
        break;
      case DT_RELRSZ:
        tables_.packed.bytes = value;
        break;
      case DT_HASH:
        tables_.hash = value;
        break;
      case DT_GNU_HASH:
        tables_.gnu_hash = value;
        break;
      case DT_NEEDED:
        needed.push_back(value);
        break;
      case DT_RPATH:
      case DT_RUNPATH:
        run_path = value;
        break;
      case DT_FLAGS_1:
        flags_at_ = value_at;
        if ((value & DF_1_PIE) != 0 && !is_executable()) return cannot(path, is_static);
        break;
      case DT_INIT:
        beginnings_.function = value;
        break;
      case DT_INIT_ARRAY:
        beginnings_.offset = value;
        break;
      case DT_INIT_ARRAYSZ:
        beginnings_.count = value / sizeof(void*);
        break;
      case DT_FINI_ARRAY:
        endings_.offset = value;
        break;
      case DT_FINI_ARRAYSZ:
        endings_.count = value / sizeof(void*);
        endings_.size_offset = value_at - dynamic->p_offset + dynamic->p_vaddr;
        break;
      default:
        break;
    }
  }
  for (const std::uint64_t name : needed)
    needed_.emplace_back(text(name));
  if (run_path != 0) find_folders(path, text(run_path));
  for (const ElfTables::Table& table : {tables_.relocations, tables_.jumps}) {
    const std::size_t count = table.bytes / sizeof(Elf64_Rela);
    if (count == 0) continue;
    const auto* const first = image().at<Elf64_Rela>(table.address, count);
    if (!first) return cannot(path, "its file is damaged (relocations)");
    ISTHMUS_TRY(read_imports(first, count));
  }
  for (const Import& variable : copied_)
    if (!is_harmless(variable.name))
      return cannot(path, "it would have a variable of a library, '" + variable.name +
                              "', for itself, and each copy another; compile it with -fPIC");
  if (is_executable() &&
      std::ranges::find(functions_, "__libc_start_main", &Import::name) == functions_.end())
    return cannot(path, "it does not begin as programs of the GNU C library do");
  return {};
}

Result<> ProgramFile::read_imports(const Elf64_Rela* first, std::size_t count) {
  for (const Elf64_Rela& each : std::span(first, count)) {
    const auto type = ELF64_R_TYPE(each.r_info);
    const bool is_copy = type == R_X86_64_COPY;
    if (!is_copy && type != R_X86_64_GLOB_DAT && type != R_X86_64_JUMP_SLOT && type != R_X86_64_64) continue;
    const std::uint64_t index = ELF64_R_SYM(each.r_info);
    const auto* const symbol = image().at<Elf64_Sym>(tables_.symbols + index * sizeof(Elf64_Sym));
    tables_.symbol_count = std::max(tables_.symbol_count, index + 1);
    if (!symbol || (!is_copy && (symbol->st_shndx != SHN_UNDEF || each.r_addend != 0))) continue;
    (is_copy ? copied_ : functions_).push_back({std::string(text(symbol->st_name)), each.r_offset});
  }
  return {};
}

/// $ORIGIN is the folder of the program, and that of its copy is another.
void ProgramFile::find_folders(const std::string& path, std::string_view run_path) {
  std::error_code none;
  const std::string folder = std::filesystem::canonical(path, none).parent_path();
  while (!run_path.empty()) {
    const std::size_t colon = run_path.find(':');
    std::string each(run_path.substr(0, colon));
    run_path.remove_prefix(colon == std::string_view::npos ? run_path.size() : colon + 1);
    bool is_relative = false;
    for (const std::string_view word : {"$ORIGIN", "${ORIGIN}"})
      for (std::size_t found; (found = each.find(word)) != std::string::npos; is_relative = true)
        each.replace(found, word.size(), folder);
    if (is_relative) folders_.push_back(std::move(each));
  }
}

/// Takes off the mark of an executable; and symbols that the linker would make one of in all copies
/// (STB_GNU_UNIQUE: inline variables and statics of C++) become as others.
void ProgramFile::prepare_copy() {
  if (flags_at_ != 0) {
    std::uint64_t flags = 0;
    std::memcpy(&flags, bytes_.data() + flags_at_, sizeof flags);
    flags &= ~std::uint64_t{DF_1_PIE | DF_1_NODELETE};
    std::memcpy(bytes_.data() + flags_at_, &flags, sizeof flags);
  }
  const std::uint64_t count = count_symbols(image(), tables_);
  for (std::uint64_t i = 0; i < count; ++i) {
    auto* const symbol = image().at<Elf64_Sym>(tables_.symbols + i * sizeof(Elf64_Sym));
    if (!symbol) break;
    if (ELF64_ST_BIND(symbol->st_info) == unique_binding)
      symbol->st_info = ELF64_ST_INFO(STB_WEAK, ELF64_ST_TYPE(symbol->st_info));
  }
  // What stands behind what is loaded has been left away.
  auto* const header = reinterpret_cast<Elf64_Ehdr*>(bytes_.data());
  header->e_shoff = 0;
  header->e_shnum = header->e_shstrndx = 0;
}

Result<UniqueFd> ProgramFile::copy(std::uint64_t address) const {
  return written(bytes_, address);
}

Result<UniqueFd> ProgramFile::quiet_copy(std::uint64_t address) const {
  std::vector<std::byte> bytes = bytes_;
  const ElfImage image(bytes);
  for (Elf64_Phdr& segment : image.segments()) {
    if (segment.p_type == PT_TLS && is_executable()) segment.p_type = PT_NULL;
    if (segment.p_type != PT_DYNAMIC) continue;
    const std::size_t entries = segment.p_filesz / sizeof(Elf64_Dyn);
    auto* const table = reinterpret_cast<Elf64_Dyn*>(bytes.data() + segment.p_offset);
    for (std::size_t i = 0; i < entries && table[i].d_tag != DT_NULL; ++i)
      switch (table[i].d_tag) {
        case DT_INIT:
        case DT_FINI:
          table[i].d_tag = DT_DEBUG;  // one that the linker does not read
          table[i].d_un.d_val = 0;
          break;
        case DT_INIT_ARRAYSZ:
        case DT_FINI_ARRAYSZ:
        case DT_PREINIT_ARRAYSZ:
          table[i].d_un.d_val = 0;
          break;
        default:
          break;
      }
  }
  return written(std::move(bytes), address);
}

std::vector<ProgramFile::Span> ProgramFile::written_at(std::uint64_t address) const {
  std::vector<Span> spans;
  const std::uint64_t distance = address - lowest();
  for (const Elf64_Phdr& segment : image().segments())
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) != 0)
      spans.push_back({segment.p_vaddr + distance, segment.p_vaddr + distance + segment.p_memsz});
  return spans;
}

Result<UniqueFd> ProgramFile::written(std::vector<std::byte> bytes, std::uint64_t address) const {
  const ElfImage image(bytes);
  if (!rebase(image, tables_, address - image.lowest()))
    return fail(ErrorClass::other, "a copy of the program cannot be made: its file is damaged");
  UniqueFd file = make_memory_file();
  const auto complain = [](const char* what) {
    return fail(ErrorClass::no_mem, std::string("a copy of the program cannot be made: ") + what + ": " +
                                        std::generic_category().message(errno));
  };
  if (!file) return complain("memfd_create");
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t written = ::write(file.get(), bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return complain("write");
    done += static_cast<std::size_t>(written);
  }
  return file;
}

}  // namespace isthmus::vrank
