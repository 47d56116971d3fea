// A server on a free port before a fake engine.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/server.h"
#include "tests/server/support/fake_engine.h"
#include "tests/server/support/http_client.h"

namespace monograph::test {

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    config.port = 0;
    config.version = "1.2.3";
  }
  ~ServerTest() override {
    // The streams go before the engine.
    if (server) {
      server->request_stop(std::chrono::milliseconds(0));
      server->wait();
    }
  }
  /// Starts with the configuration as it stands then.
  void start(bool with_engine = true) {
    server = std::make_unique<server::Server>(config, Log([this](LogLevel, std::string_view line) {
                                                const std::lock_guard lock(log_mutex);
                                                log_lines.emplace_back(line);
                                              }));
    if (with_engine) server->set_engine(&engine);
    server->start();
  }
  int port() const { return server->port(); }
  Answer complete(const std::string& body) { return post(port(), "/v1/completions", body); }
  Answer chat(const std::string& body) { return post(port(), "/v1/chat/completions", body); }
  std::string logged() {
    const std::lock_guard lock(log_mutex);
    std::string all;
    for (const std::string& line : log_lines) all += line + "\n";
    return all;
  }
  /// The server still answers, and as always.
  void expect_alive() {
    EXPECT_EQ(get(port(), "/livez").status, 200);
    EXPECT_EQ(get(port(), "/health").status, 200);
  }

  server::ServerConfig config;
  FakeEngine engine;
  std::mutex log_mutex;
  std::vector<std::string> log_lines;
  std::unique_ptr<server::Server> server;
};

}  // namespace monograph::test
