// The program: `monograph serve | generate | bench | inspect | plan`.
#include <signal.h>

#include <string>
#include <vector>

#include "commands.h"

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);  // a reader that goes away is a failed write, not the end of a server
  monograph::app::StopSignals signals;
  return monograph::app::run(std::vector<std::string>(argv + 1, argv + argc), signals);
}
