//===- Compiler.cpp - Runs the compiler beside this tool ------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The compiler's messages go to standard error unchanged.
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"

#include "fp8rt/Container.h"
#include "fp8rt/Sha256.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char **environ;

using namespace fp8run;
namespace fs = std::filesystem;

namespace {

bool findCompiler(std::string &path, std::string &error) {
  std::error_code code;
  fs::path self = fs::read_symlink("/proc/self/exe", code);
  path = (self.parent_path() / "fp8-opt").string();
  if (!code && ::access(path.c_str(), X_OK) == 0)
    return true;
  error = "cannot find the compiler '" + path +
          "' beside fp8-run: build fp8-opt, or run an artifact";
  return false;
}

/// Runs `arguments` (the first is the program) and waits. Returns false on a
/// failure; `error` stays empty when the program itself reported it.
bool runProgram(const std::vector<std::string> &arguments, std::string &error) {
  std::vector<char *> argv;
  for (const std::string &argument : arguments)
    argv.push_back(const_cast<char *>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  int code =
      ::posix_spawn(&child, argv[0], nullptr, nullptr, argv.data(), environ);
  if (code != 0) {
    error = "cannot run '" + arguments[0] + "': " + std::strerror(code);
    return false;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) {
      error = "lost '" + arguments[0] + "': " + std::strerror(errno);
      return false;
    }
  if (WIFSIGNALED(status)) {
    error = "'" + arguments[0] + "' was ended by signal " +
            std::to_string(WTERMSIG(status));
    return false;
  }
  return WEXITSTATUS(status) == 0;
}

} // namespace

bool fp8run::compileArtifact(const Options &options, std::string &artifact,
                             std::string &error) {
  std::string compiler;
  if (!findCompiler(compiler, error))
    return false;
  std::error_code code;
  fs::path folder = fs::temp_directory_path(code);
  std::string pattern = ((code ? fs::path("/tmp") : folder) / "fp8-run-XXXXXX");
  if (!::mkdtemp(pattern.data())) {
    error = "cannot make a temporary folder '" + pattern +
            "': " + std::strerror(errno);
    return false;
  }
  std::string path = pattern + "/artifact";
  std::string compile = "--compile=target=";
  compile += options.isCuda() ? "h200" : "cpu";
  if (!options.policy.empty())
    compile += ",policy=" + options.policy;
  if (!options.budget.empty())
    compile += ",budget=" + options.budget;
  bool ok = runProgram(
      {compiler, options.input, compile, "--emit=artifact", "-o", path}, error);
  if (ok) {
    std::optional<std::string> bytes = fp8rt::readWholeFile(path, error);
    ok = bytes.has_value();
    if (ok)
      artifact = std::move(*bytes);
  }
  fs::remove_all(pattern, code);
  return ok;
}

bool fp8run::cachedReference(const Options &options, std::string &path,
                             std::string &error) {
  std::string compiler;
  if (!findCompiler(compiler, error))
    return false;
  std::optional<std::string> text = fp8rt::readWholeFile(options.input, error);
  if (!text)
    return false;
  struct stat info;
  if (::stat(compiler.c_str(), &info) != 0) {
    error = "cannot read '" + compiler + "': " + std::strerror(errno);
    return false;
  }
  std::vector<std::string> numbers = {
      "--seed=" + std::to_string(options.seed),
      "--steps=" + std::to_string(options.steps),
      "--microbatches=" + std::to_string(options.microbatches)};
  if (!options.function.empty())
    numbers.push_back("--function=" + options.function);
  std::string key = *text;
  key += '\0' + std::to_string(info.st_size) + ' ' +
         std::to_string(info.st_mtim.tv_sec) + '.' +
         std::to_string(info.st_mtim.tv_nsec);
  for (const std::string &number : numbers)
    key += '\0' + number;

  const char *cache = std::getenv("XDG_CACHE_HOME");
  const char *home = std::getenv("HOME");
  std::error_code code;
  fs::path folder = cache && *cache ? fs::path(cache)
                    : home && *home ? fs::path(home) / ".cache"
                                    : fs::temp_directory_path(code);
  folder /= "fp8-opt";
  fs::create_directories(folder, code);
  path = (folder / (fp8rt::sha256Hex(key) + ".reference")).string();
  // A damaged file in the cache is made again.
  if (fp8rt::Container::readFile(path, fp8rt::ContainerKind::Reference, error))
    return true;
  error.clear();

  std::string temporary = path + ".tmp" + std::to_string(::getpid());
  std::vector<std::string> arguments = {compiler, options.input, "--compile",
                                        "--emit=reference"};
  arguments.insert(arguments.end(), numbers.begin(), numbers.end());
  arguments.insert(arguments.end(), {"-o", temporary});
  bool ok = runProgram(arguments, error);
  if (ok && std::rename(temporary.c_str(), path.c_str()) != 0) {
    error = "cannot write '" + path + "': " + std::strerror(errno);
    ok = false;
  }
  if (!ok)
    fs::remove(temporary, code);
  return ok;
}
