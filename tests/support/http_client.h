#pragma once
// A small blocking HTTP/1.1 client on a socket, which can also send what is no HTTP.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

namespace sirenfeed::test {

struct HttpReply {
  int status = 0;                              // 0: the connection ended without an answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  [[nodiscard]] std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

/// One connection, used again for each request. Threads: one.
class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port, bool ipv6 = false) {
    socket_ = ::socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
    if (ipv6) {
      sockaddr_in6 address{};
      address.sin6_family = AF_INET6;
      address.sin6_port = htons(port);
      address.sin6_addr = in6addr_loopback;
      connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    } else {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(port);
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    }
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~HttpClient() {
    if (socket_ >= 0) ::close(socket_);
  }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }

  HttpReply request(std::string_view method, std::string_view target, std::string_view body = "",
                    std::string_view content_type = "application/json",
                    std::string_view more_headers = "") {
    std::string text;
    text.append(method).append(" ").append(target).append(" HTTP/1.1\r\nHost: test\r\n");
    text.append(more_headers);
    if (!body.empty() || method == "POST" || method == "PUT") {
      text.append("Content-Type: ").append(content_type).append("\r\nContent-Length: ");
      text.append(std::to_string(body.size())).append("\r\n");
    }
    text.append("\r\n").append(body);
    send(text);
    return read(method == "HEAD");
  }
  HttpReply get(std::string_view target) { return request("GET", target); }
  HttpReply post(std::string_view target, std::string_view body,
                 std::string_view content_type = "application/json") {
    return request("POST", target, body, content_type);
  }

  /// Sends bytes as they are; false when the peer has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// Reads one answer; status 0 when the peer closes or nothing comes for `timeout`.
  HttpReply read(bool head = false,
                 std::chrono::milliseconds timeout = std::chrono::milliseconds(20'000)) {
    HttpReply reply;
    std::size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!fill(timeout)) return reply;
    }
    parse_header(std::string_view(buffer_).substr(0, end), reply);
    buffer_.erase(0, end + 4);
    if (head || reply.status == 100) return reply;
    const std::size_t length = std::strtoull(reply.header("content-length").c_str(), nullptr, 10);
    while (buffer_.size() < length) {
      if (!fill(timeout)) return {};
    }
    reply.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    return reply;
  }

  /// The peer has closed: nothing more comes.
  bool closed_within(std::chrono::milliseconds timeout) {
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (std::chrono::steady_clock::now() < end) {
      pollfd ready{socket_, POLLIN, 0};
      if (::poll(&ready, 1, 10) <= 0) continue;
      char bytes[4096];
      const auto got = ::recv(socket_, bytes, sizeof bytes, 0);
      if (got <= 0) return true;
    }
    return false;
  }

 private:
  bool fill(std::chrono::milliseconds timeout) {
    pollfd ready{socket_, POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(timeout.count())) <= 0) return false;
    char bytes[16384];
    const auto got = ::recv(socket_, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    buffer_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }

  static void parse_header(std::string_view header, HttpReply& reply) {
    if (header.size() > 12) reply.status = std::atoi(std::string(header.substr(9, 3)).c_str());
    std::size_t at = header.find("\r\n");
    while (at != header.npos) {
      const std::size_t next = header.find("\r\n", at + 2);
      const std::string_view line =
          header.substr(at + 2, next == header.npos ? next : next - at - 2);
      const std::size_t colon = line.find(':');
      if (colon != line.npos) {
        std::string name(line.substr(0, colon));
        std::transform(name.begin(), name.end(), name.begin(),
                       [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
        const std::size_t value = line.find_first_not_of(' ', colon + 1);
        reply.headers[name] = value == line.npos ? "" : std::string(line.substr(value));
      }
      at = next;
    }
  }

  int socket_ = -1;
  bool connected_ = false;
  std::string buffer_;
};

}  // namespace sirenfeed::test
