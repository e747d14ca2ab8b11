#include "bench/captured_database.h"

#include <rocksdb/trace_reader_writer.h>

#include <memory>

#include "base/check.h"

namespace sirenfeed::bench {

Capture capture;

#define OPEN_SYMBOL                                                                            \
  "_ZN7rocksdb2DB4OpenERKNS_9DBOptionsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE" \
  "RKSt6vectorINS_22ColumnFamilyDescriptorESaISD_EEPSC_IPNS_18ColumnFamilyHandleESaISJ_EEPPS0_"
rocksdb::Status real(const rocksdb::DBOptions& options, const std::string& dir,
                     const Families& families, Handles* handles,
                     rocksdb::DB** db) __asm__("__real_" OPEN_SYMBOL);
rocksdb::Status captured(const rocksdb::DBOptions& options, const std::string& dir,
                         const Families& families, Handles* handles,
                         rocksdb::DB** db) __asm__("__wrap_" OPEN_SYMBOL);

rocksdb::Status captured(const rocksdb::DBOptions& options, const std::string& dir,
                         const Families& families, Handles* handles, rocksdb::DB** db) {
  const rocksdb::Status status = real(options, dir, families, handles, db);
  capture.options = options;
  capture.families = families;
  capture.handles = *handles;
  capture.db = *db;
  if (!status.ok() || capture.trace.empty()) return status;
  const rocksdb::EnvOptions env_options;
  std::unique_ptr<rocksdb::TraceWriter> writer;
  SF_CHECK(rocksdb::NewFileTraceWriter(rocksdb::Env::Default(), env_options, capture.trace, &writer)
               .ok());
  SF_CHECK((*db)->StartTrace(rocksdb::TraceOptions(), std::move(writer)).ok());
  return status;
}

rocksdb::Status open_real(const rocksdb::DBOptions& options, const std::string& dir,
                          const Families& families, Handles* handles, rocksdb::DB** db) {
  return real(options, dir, families, handles, db);
}

}  // namespace sirenfeed::bench
