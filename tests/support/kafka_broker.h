#pragma once
// A real Kafka broker for tests (tests/support/kafka_broker.sh): in a folder of its own, on a free
// port, ended with this object.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "ingest/kafka_config.h"
#include "tests/support/temp_dir.h"

namespace sirenfeed::test_support {

class KafkaBroker {
 public:
  /// Why no broker can be had on this machine (for GTEST_SKIP), or nullopt. Fetches Kafka on first
  /// use, which takes a while.
  static std::optional<std::string> unavailable() {
    for (const char* command : {"java", "mvn"}) {
      if (std::system(("command -v " + std::string(command) + " > /dev/null").c_str()) != 0) {
        return "a real Kafka broker needs " + std::string(command) +
               " (Debian: openjdk-17-jre-headless, maven)";
      }
    }
    if (!run("install")) return "Kafka could not be fetched from Maven Central";
    return std::nullopt;
  }

  /// `properties`: further lines of server.properties, which win over the usual ones.
  explicit KafkaBroker(std::string properties = {})
      : properties_(std::move(properties)), port_(two_free_ports()) {}
  ~KafkaBroker() { run("kill " + dir_.path().string()); }
  KafkaBroker(const KafkaBroker&) = delete;
  KafkaBroker& operator=(const KafkaBroker&) = delete;

  /// Also after stop() or kill(): with the data and on the port of before.
  [[nodiscard]] bool start() {
    if (!std::exchange(watched_, true)) end_with_this_process();
    return run("start " + dir_.path().string() + " " + std::to_string(port_), properties_);
  }
  [[nodiscard]] bool stop() { return run("stop " + dir_.path().string()); }
  [[nodiscard]] bool kill() { return run("kill " + dir_.path().string()); }

  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] ingest::KafkaConfig config() const {
    ingest::KafkaConfig config;
    config.brokers = address();
    return config;
  }

 private:
  /// A test that crashes runs no destructor: a shell waits for its end and then kills the broker.
  void end_with_this_process() const {
    const std::string command = "(while kill -0 " + std::to_string(::getpid()) +
                                "; do sleep 1; done; bash " SIRENFEED_SOURCE_DIR
                                "/tests/support/kafka_broker.sh kill " +
                                dir_.path().string() + ") < /dev/null > /dev/null 2>&1 &";
    EXPECT_EQ(std::system(command.c_str()), 0);
  }

  static bool run(const std::string& arguments, const std::string& properties = {}) {
    // A quick start matters more here than the broker's top speed.
    const std::string command = "KAFKA_PROPERTIES='" + properties +
                                "' KAFKA_START_TIMEOUT=180 KAFKA_JVM_OPTS='-Xms128m -Xmx512m "
                                "-XX:+UseSerialGC -XX:TieredStopAtLevel=1' "
                                "bash " SIRENFEED_SOURCE_DIR "/tests/support/kafka_broker.sh " +
                                arguments + " >&2";
    const int status = std::system(command.c_str());
    return status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  /// A port that is free, as is the one after it (the broker's controller listens there).
  static int two_free_ports() {
    for (int attempt = 0; attempt < 100; ++attempt) {
      const int port = bind_port(0);
      if (port > 0 && port < 65'000 && bind_port(port + 1) == port + 1) return port;
    }
    return 29'392;
  }
  static int bind_port(int port) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    const bool bound =
        ::bind(socket, generic, size) == 0 && ::getsockname(socket, generic, &size) == 0;
    ::close(socket);
    return bound ? ntohs(address.sin_port) : -1;
  }

  TempDir dir_;
  const std::string properties_;
  const int port_;
  bool watched_ = false;
};

}  // namespace sirenfeed::test_support
