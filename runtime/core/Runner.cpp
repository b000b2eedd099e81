//===- Runner.cpp - Executes a command list -------------------------------===//
//
// Part of the fp8-opt project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The loop over commands. Addresses of arguments and buffers are bound once a
// run; dynamic mode rebinds a buffer at each alloc.
//
//===----------------------------------------------------------------------===//

#include "Runner.h"

#include "CpuBackend.h"

#include <algorithm>
#include <chrono>

using namespace fp8rt;

std::unique_ptr<Program> fp8rt::loadProgram(std::string bytes,
                                            const std::string &backend,
                                            std::string &error) {
  if (backend != "cpu") {
    error = "no " + backend + " backend in this build";
    return nullptr;
  }
  std::optional<Container> container =
      Container::parse(std::move(bytes), ContainerKind::Artifact, error);
  if (!container)
    return nullptr;
  auto program = std::make_unique<Program>();
  program->container = std::move(*container);
  std::optional<std::string_view> json = program->container.section("manifest");
  if (!json) {
    error = "the artifact has no section 'manifest'";
    return nullptr;
  }
  std::optional<Manifest> manifest = parseManifest(*json, error);
  if (!manifest)
    return nullptr;
  program->manifest = std::move(*manifest);
  if (program->manifest.target != backend) {
    error = "expected an artifact for target '" + backend + "', but got '" +
            program->manifest.target + "'";
    return nullptr;
  }
  program->backend = createCpuBackend(
      program->container.section("cpu.so").value_or(""), error);
  return program->backend ? std::move(program) : nullptr;
}

Runner::Runner(Program &program, const Function &function,
               RunnerOptions options)
    : program(program), function(function), options(options),
      kernels(function.commands.size()),
      argumentData(function.arguments.size()),
      bufferData(function.buffers.size()) {
  if (options.ledger)
    entries.resize(function.commands.size());
  if (options.dynamic)
    dynamicMemory.emplace(function, *program.backend, options.poison);
  else if (options.watch)
    watcher.emplace(function, options.poison);
}

std::unique_ptr<Runner> Runner::create(Program &program, size_t function,
                                       RunnerOptions options,
                                       std::string &error) {
  std::unique_ptr<Runner> runner(
      new Runner(program, program.manifest.functions[function], options));
  size_t most = 0;
  for (size_t i = 0; i < runner->function.commands.size(); ++i) {
    const Command &command = runner->function.commands[i];
    if (command.op != CommandOp::Launch)
      continue;
    most = std::max(most, command.refs.size());
    runner->kernels[i] = program.backend->resolve(command.kernel, error);
    if (!runner->kernels[i]) {
      error = describe(command) + ": " + error;
      return nullptr;
    }
  }
  runner->launchArgs.resize(most);
  return runner;
}

size_t Runner::arenaBytes() const {
  if (options.dynamic)
    return 0;
  return function.arenaBytes + (watcher ? Watcher::kRedZoneBytes : 0);
}

bool Runner::bind(void *const *arguments, void *const *results, void *arena,
                  size_t arenaSize, std::string &error) {
  for (size_t i = 0; i < argumentData.size(); ++i) {
    argumentData[i] = arguments[i];
    if (!arguments[i]) {
      error = "argument '" + function.arguments[i].name + "' is null";
      return false;
    }
  }
  if (!options.dynamic) {
    if (arenaSize < arenaBytes()) {
      error = "expected an arena of " + std::to_string(arenaBytes()) +
              " bytes, but got " + std::to_string(arenaSize);
      return false;
    }
    if (arenaBytes() && (!arena || reinterpret_cast<uintptr_t>(arena) % 256)) {
      error = "expected an arena aligned to 256 bytes";
      return false;
    }
  }
  for (size_t i = 0; i < bufferData.size(); ++i) {
    int64_t offset = function.buffers[i].offset;
    bufferData[i] = options.dynamic || offset < 0
                        ? nullptr
                        : static_cast<unsigned char *>(arena) + offset;
  }
  for (size_t i = 0; i < function.results.size(); ++i) {
    const Result &result = function.results[i];
    if (!result.placedByCaller)
      continue;
    if (!results || !results[i]) {
      error = "result '" + result.name +
              "' is placed by the caller, but its memory is null";
      return false;
    }
    bufferData[result.ref.index] = results[i];
  }
  return true;
}

bool Runner::runGemm(const Command &command, void *stream, std::string &error) {
  const GemmCommand &gemm = command.gemm;
  auto matrix = [&](const Operand &operand) {
    auto *base = static_cast<unsigned char *>(addressOf(operand.ref));
    return GemmMatrix{base + operand.offset * dtypeBytes(operand.dtype),
                      operand.dtype,
                      {operand.strides[0], operand.strides[1]}};
  };
  auto scale = [&](const std::optional<ScaleOperand> &operand) {
    if (!operand)
      return GemmScale{};
    return GemmScale{static_cast<float *>(addressOf(operand->ref)) +
                         operand->offset,
                     {operand->group[0], operand->group[1]},
                     {operand->strides[0], operand->strides[1]}};
  };
  GemmProblem problem{gemm.m,
                      gemm.n,
                      gemm.k,
                      matrix(gemm.a),
                      matrix(gemm.b),
                      gemm.c ? matrix(*gemm.c) : GemmMatrix{},
                      matrix(gemm.d),
                      scale(gemm.scaleA),
                      scale(gemm.scaleB)};
  return program.backend->gemm(problem, addressOf(gemm.workspace), stream,
                               error);
}

bool Runner::execute(const Command &command, size_t index, void *stream,
                     std::string &error) {
  switch (command.op) {
  case CommandOp::Alloc:
    if (dynamicMemory)
      return dynamicMemory->allocate(command.buffer, bufferData[command.buffer],
                                     stream, error);
    if (watcher)
      watcher->allocated(command);
    return true;
  case CommandOp::Free:
    if (dynamicMemory)
      return dynamicMemory->release(command.buffer, stream, error);
    if (watcher)
      watcher->freed(command);
    return true;
  case CommandOp::Launch:
    for (size_t i = 0; i < command.refs.size(); ++i)
      launchArgs[i] = addressOf(command.refs[i]);
    return program.backend->launch(kernels[index], launchArgs.data(), stream,
                                   error);
  case CommandOp::Gemm:
    return runGemm(command, stream, error);
  case CommandOp::Copy:
    return program.backend->copy(addressOf(command.refs[1]),
                                 addressOf(command.refs[0]), command.bytes,
                                 stream, error);
  }
  return true;
}

bool Runner::run(void *const *arguments, void *const *results, void *arena,
                 size_t arenaSize, void *stream, std::string &error) {
  if (!bind(arguments, results, arena, arenaSize, error))
    return false;
  measuredPeak.reset();
  if (dynamicMemory)
    dynamicMemory->begin(stream);
  if (watcher)
    watcher->begin(static_cast<unsigned char *>(arena), bufferData,
                   argumentData.data());

  using Clock = std::chrono::steady_clock;
  for (size_t i = 0; i < function.commands.size(); ++i) {
    const Command &command = function.commands[i];
    Clock::time_point start;
    if (options.ledger)
      start = Clock::now();
    if (!execute(command, i, stream, error)) {
      if (command.op != CommandOp::Alloc && command.op != CommandOp::Free)
        error = describe(command) + ": " + error;
      return false;
    }
    if (options.ledger)
      entries[i].milliseconds =
          std::chrono::duration<double, std::milli>(Clock::now() - start)
              .count();
    if (watcher) {
      if (command.op != CommandOp::Alloc && command.op != CommandOp::Free)
        watcher->executed(command);
      if (!watcher->violation().empty()) {
        error = watcher->violation();
        return false;
      }
    }
    if (options.ledger)
      entries[i].liveBytes = watcher         ? watcher->liveBytes()
                             : dynamicMemory ? dynamicMemory->liveBytes()
                                             : 0;
  }

  if (watcher) {
    watcher->finish();
    measuredPeak = watcher->peakBytes();
    if (!watcher->violation().empty()) {
      error = watcher->violation();
      return false;
    }
  }
  if (dynamicMemory) {
    measuredPeak = dynamicMemory->peakBytes();
    return dynamicMemory->finish(error);
  }
  return true;
}

void *Runner::resultData(size_t index) const {
  const Result &result = function.results[index];
  return static_cast<unsigned char *>(addressOf(result.ref)) +
         result.offset * dtypeBytes(result.dtype);
}

std::optional<uint64_t> Runner::measuredPeakBytes() const {
  return measuredPeak;
}
