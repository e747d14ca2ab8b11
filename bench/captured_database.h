#pragma once
// The RocksDB database that the state opens, seen from outside: the linker gives every call of
// rocksdb::DB::Open in a program that links captured_database.cc to it (--wrap in
// bench/CMakeLists.txt), so that the state opens its database through it without knowing.
#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <string>
#include <vector>

namespace sirenfeed::bench {

using Handles = std::vector<rocksdb::ColumnFamilyHandle*>;
using Families = std::vector<rocksdb::ColumnFamilyDescriptor>;

/// How the state has opened its database last, and the trace that it is to write. Threads: one.
struct Capture {
  rocksdb::DBOptions options;
  Families families;
  Handles handles;    // borrowed, like `db`: gone with the state
  std::string trace;  // "": none
  rocksdb::DB* db = nullptr;
};
extern Capture capture;

/// RocksDB's own.
rocksdb::Status open_real(const rocksdb::DBOptions& options, const std::string& dir,
                          const Families& families, Handles* handles, rocksdb::DB** db);

}  // namespace sirenfeed::bench
