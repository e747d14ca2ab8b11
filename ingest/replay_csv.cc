// Delimited text as rows. The CSV library and its exceptions stay in this file.
#define CSV_IO_NO_THREAD
#include <libfccp/csv.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <numeric>
#include <utility>

#include "ingest/event_fields.h"
#include "ingest/replay_rows.h"

namespace sirenfeed::ingest {

using base::ErrorCode;

tl::unexpected<base::Error> RowSource::bad_field(std::string_view column, std::string_view expected,
                                                 std::string_view got) const {
  const bool readable = simdjson::validate_utf8(got.data(), got.size());
  return base::fail(ErrorCode::kDecode, "{}:{}: {}: expected {}, got {}", input().name(), line(),
                    column, expected,
                    readable ? "'" + excerpt(got) + "'" : "bytes that are not UTF-8");
}

namespace {

/// Carries an error of ours through the CSV library, whose way is exceptions.
class SourceFailure final : public std::exception {
 public:
  explicit SourceFailure(base::Error error) : error_(std::move(error)) {}
  [[nodiscard]] const base::Error& error() const { return error_; }

 private:
  base::Error error_;
};

class CsvSource final : public io::ByteSourceBase {
 public:
  explicit CsvSource(std::shared_ptr<ReplayInput> input) : input_(std::move(input)) {}
  int read(char* out, int size) override {
    auto got = input_->read(out, static_cast<std::size_t>(size));
    if (!got) throw SourceFailure(std::move(got).error());
    char* const end = out + *got;
    char* const nul = std::find(out, end, '\0');  // would end the library's line unseen
    lines_ += std::count(out, nul, '\n');
    if (nul == end) return static_cast<int>(*got);
    throw SourceFailure({ErrorCode::kDecode, fmt::format("{}:{}: expected text, got a NUL byte",
                                                         input_->name(), lines_ + 1)});
  }

 private:
  std::shared_ptr<ReplayInput> input_;
  std::ptrdiff_t lines_ = 0;
};

template <std::size_t kColumns, class Quotes>
class CsvRows final : public RowSource {
 public:
  explicit CsvRows(const std::shared_ptr<ReplayInput>& input)
      : input_(input),
        csv_(input->name(), std::unique_ptr<io::ByteSourceBase>(new CsvSource(input))) {
    fields_.resize(kColumns);
    std::iota(taken_from_.begin(), taken_from_.end(), std::size_t{0});
  }

  base::Result<void> read_header(const std::vector<RowColumn>& columns) {
    for (std::size_t i = 0; i < kColumns; ++i) {
      names_[i] = "\x01" + std::to_string(i);  // no file has a column of such a name
      if (i >= columns.size() || columns[i].name.empty()) continue;
      // The library knows a name once: a second role of the same column takes it from the first.
      const auto same = std::find(names_.begin(), names_.begin() + static_cast<std::ptrdiff_t>(i),
                                  columns[i].name);
      taken_from_[i] = static_cast<std::size_t>(same - names_.begin());
      if (taken_from_[i] == i) names_[i] = columns[i].name;
    }
    SF_TRY(guarded([&] { read_names(std::make_index_sequence<kColumns>()); }));
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].required && !has(i)) {
        return base::fail(ErrorCode::kDecode, "{}:{}: expected a column '{}'", input_->name(),
                          csv_.get_file_line(), columns[i].name);
      }
    }
    return {};
  }

  base::Result<bool> next() override {
    bool more = false;
    SF_TRY(guarded([&] { more = read_row(std::make_index_sequence<kColumns>()); }));
    for (std::size_t i = 0; more && i < kColumns; ++i) {
      const char* const text = row_[taken_from_[i]];
      fields_[i] = text == nullptr ? std::string_view() : std::string_view(text);
    }
    return more;
  }
  bool has(std::size_t i) const override {
    const std::string& name = names_[taken_from_[i]];
    return name.empty() || csv_.has_column(name);
  }
  std::uint64_t line() const override { return csv_.get_file_line(); }
  const ReplayInput& input() const override { return *input_; }

 private:
  /// What the CSV library throws becomes an Error here and goes no further.
  template <class Call>
  base::Result<void> guarded(Call call) {
    try {
      call();
      return {};
    } catch (const SourceFailure& failure) {
      return base::fail(failure.error());
    } catch (const io::error::base& error) {
      return base::fail(ErrorCode::kDecode, "{}:{}: {}", input_->name(), csv_.get_file_line(),
                        error.what());
    }
  }
  template <std::size_t... kAt>
  void read_names(std::index_sequence<kAt...>) {
    csv_.read_header(io::ignore_extra_column | io::ignore_missing_column, names_[kAt]...);
  }
  template <std::size_t... kAt>
  bool read_row(std::index_sequence<kAt...>) {
    return csv_.read_row(row_[kAt]...);
  }

  std::shared_ptr<ReplayInput> input_;
  std::array<std::string, kColumns> names_;
  std::array<std::size_t, kColumns> taken_from_{};
  std::array<char*, kColumns> row_{};
  io::CSVReader<kColumns, io::trim_chars<>, Quotes, io::throw_on_overflow, io::empty_line_comment>
      csv_;
};

/// The library reads the first block as it is made.
template <class Rows>
base::Result<std::unique_ptr<Rows>> make_rows(ReplayInput input) {
  try {
    return std::make_unique<Rows>(std::make_shared<ReplayInput>(std::move(input)));
  } catch (const SourceFailure& failure) {
    return base::fail(failure.error());
  }
}

template <class Quotes>
base::Result<std::unique_ptr<RowSource>> with_header(ReplayInput input,
                                                     const std::vector<RowColumn>& columns) {
  SF_ASSIGN(auto rows, (make_rows<CsvRows<kCsvColumnsMax, Quotes>>(std::move(input))));
  SF_TRY(rows->read_header(columns));
  return rows;
}

}  // namespace

base::Result<std::unique_ptr<RowSource>> open_csv(ReplayInput input, char delimiter, bool quoted,
                                                  std::vector<RowColumn> columns) {
  if (delimiter == '\t' && quoted) {
    return with_header<io::double_quote_escape<'\t', '"'>>(std::move(input), columns);
  }
  if (delimiter == '\t') return with_header<io::no_quote_escape<'\t'>>(std::move(input), columns);
  if (delimiter == ';') {
    return with_header<io::double_quote_escape<';', '"'>>(std::move(input), columns);
  }
  return with_header<io::double_quote_escape<',', '"'>>(std::move(input), columns);
}

base::Result<std::unique_ptr<RowSource>> open_tsv(ReplayInput input, std::size_t columns) {
  if (columns == 5) return make_rows<CsvRows<5, io::no_quote_escape<'\t'>>>(std::move(input));
  return make_rows<CsvRows<8, io::no_quote_escape<'\t'>>>(std::move(input));
}

}  // namespace sirenfeed::ingest
