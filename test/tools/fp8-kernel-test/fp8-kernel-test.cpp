//===- fp8-kernel-test.cpp --------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles every function of a module of kernels to an artifact, runs it
// through the runtime on several kinds of data (random values, special values,
// random bit patterns), and compares every result and every state argument
// with the reference interpreter, bit by bit (NaNs are equal to each other).
// Kernels without offsets are placed one after the other first; a module
// without kernels gets one an op. With --target=h200 the kernels are generated
// for a GPU, and their PTX is emulated (--assemble: and given to ptxas). With
// --artifact-only the file is
// written and nothing is run; with --inputs the first function runs on given
// data, and the results are written as fp8-interpret writes them.
//
//===----------------------------------------------------------------------===//

#include "PtxEmulator.h"
#include "fp8/Dialect/FP8/IR/FP8.h"
#include "fp8/Interfaces/ExternalModels.h"
#include "fp8/Target/Artifact.h"
#include "fp8/Target/Reference.h"
#include "fp8/Target/Signature.h"
#include "fp8/Transforms/Passes.h"
#include "fp8rt.h"
#include "fp8rt/Container.h"
#include "fp8rt/CpuGemm.h"
#include "fp8rt/Inputs.h"

#include "mlir/IR/AsmState.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fp8;

static llvm::cl::opt<std::string> inputPath(llvm::cl::Positional,
                                            llvm::cl::Required,
                                            llvm::cl::desc("<placed IR>"));
static llvm::cl::opt<std::string>
    artifactPath("o", llvm::cl::desc("keep the artifact here"));
static llvm::cl::opt<bool>
    artifactOnly("artifact-only",
                 llvm::cl::desc("write the artifact and run nothing"));
static llvm::cl::list<std::string>
    dataPaths("inputs", llvm::cl::CommaSeparated,
              llvm::cl::desc("one file an argument"));
static llvm::cl::opt<std::string>
    outputFolder("output-folder", llvm::cl::desc("where results go"),
                 llvm::cl::init("."));
static llvm::cl::opt<std::string>
    targetName("target", llvm::cl::desc("cpu, or a target with a GPU"),
               llvm::cl::init("cpu"));
static llvm::cl::opt<std::string>
    chipName("chip",
             llvm::cl::desc("generate for this chip, not the target's"));
static llvm::cl::opt<std::string>
    geometry("geometry", llvm::cl::desc("as of fp8-lower-to-cuda"));
static llvm::cl::opt<bool> assemble("assemble",
                                    llvm::cl::desc("the PTX, with ptxas too"));
static llvm::cl::opt<uint64_t> seed("seed", llvm::cl::init(1));

/// Gives every kernel without offsets storage of its own.
static void placeKernels(ModuleOp module) {
  OpBuilder builder(module.getContext());
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    if (function->hasAttr(kArenaBytesAttr))
      continue;
    int64_t end = 0;
    auto take = [&](int64_t bytes) {
      int64_t offset = end;
      end = llvm::alignTo(end + bytes, 256);
      return offset;
    };
    function.walk([&](KernelOp kernel) {
      SmallVector<int64_t> offsets;
      for (OpResult result : kernel->getResults())
        offsets.push_back(getAliasedOperand(result)
                              ? -1
                              : take(getByteSize(result.getType())));
      kernel.setOffsets(offsets);
      if (kernel.getKind() == KernelKind::Matmul) {
        kernel.setWorkspace(fp8rt::kCpuGemmWorkspaceBytes);
        kernel.setWorkspaceOffset(take(fp8rt::kCpuGemmWorkspaceBytes));
      }
    });
    function->setAttr(kArenaBytesAttr, builder.getI64IntegerAttr(end));
  }
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

namespace {
enum class Data { Normal, Special, Bits };
} // namespace

static const char *nameOf(Data data) {
  switch (data) {
  case Data::Normal:
    return "random values";
  case Data::Special:
    return "special values";
  case Data::Bits:
    return "random bits";
  }
  return "";
}

/// f32 patterns at which conversions and comparisons change what they do.
static constexpr uint32_t kSpecial[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000,
    0x3F800000, 0xBF800000, 0x43E00000, 0x43E80000, 0x43E80001, 0xC3E7FFFF,
    0x47600000, 0x47700000, 0x477FFFFF, 0x3B000000, 0x3B000001, 0x3A800000,
    0x3C7FFFFF, 0x3C800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000,
    0x7FC00000, 0xFFC00001, 0x7F800001, 0x42B17218, 0xC2CFF1B4, 0x3F7FFFFF};

static void fill(HostTensor &tensor, Data data, uint64_t stream) {
  Type element = tensor.type.getElementType();
  size_t count = tensor.type.getNumElements();
  uint64_t state = fp8rt::splitmix64(seed * 1000003 + stream);
  for (size_t i = 0; i < count; ++i) {
    uint64_t bits = fp8rt::splitmix64(state + i * 0xD1342543DE82EF95ull);
    float value = fp8rt::inputValue(state, i, 1.0f);
    if (data == Data::Bits)
      value = fp8rt::floatOfBits(uint32_t(bits));
    else if (data == Data::Special && bits % 7 == 0)
      value = fp8rt::floatOfBits(kSpecial[(bits >> 8) % std::size(kSpecial)]);
    uint8_t *bytes = tensor.bytes.data();
    if (element.isBF16())
      reinterpret_cast<uint16_t *>(bytes)[i] =
          data == Data::Bits ? uint16_t(bits) : fp8rt::encodeBf16(value);
    else if (element.isF32())
      reinterpret_cast<float *>(bytes)[i] = value;
    else if (element.getIntOrFloatBitWidth() == 8)
      bytes[i] = uint8_t(bits);
    else
      for (unsigned b = 0; b < element.getIntOrFloatBitWidth() / 8; ++b)
        bytes[i * (element.getIntOrFloatBitWidth() / 8) + b] =
            uint8_t(bits >> (8 * b));
  }
}

/// Whether the element at `bytes` is a NaN.
static bool isNaN(Type element, const uint8_t *bytes) {
  if (element.isBF16())
    return (bytes[1] & 0x7F) == 0x7F && (bytes[0] & 0x80) &&
           ((bytes[0] & 0x7F) != 0);
  if (element.isF32())
    return (bytes[3] & 0x7F) == 0x7F && (bytes[2] & 0x80) &&
           ((bytes[2] & 0x7F) | bytes[1] | bytes[0]) != 0;
  return false;
}

/// Compares dense `actual` with `expected`; false and a message where they
/// differ.
static bool compare(const HostTensor &expected, const uint8_t *actual,
                    Twine what) {
  Type element = expected.type.getElementType();
  size_t width = element.getIntOrFloatBitWidth() / 8;
  size_t wrong = 0;
  for (size_t i = 0, e = expected.type.getNumElements(); i < e; ++i) {
    const uint8_t *x = expected.bytes.data() + i * width;
    const uint8_t *y = actual + i * width;
    if (std::equal(x, x + width, y) || (isNaN(element, x) && isNaN(element, y)))
      continue;
    if (wrong++)
      continue;
    auto hex = [&](const uint8_t *bytes) {
      std::string text = "0x";
      for (size_t b = width; b-- > 0;)
        text += llvm::utohexstr(bytes[b], /*LowerCase=*/false, /*Width=*/2);
      return text;
    };
    llvm::errs() << "error: " << what << " differs at element " << i
                 << ": compiled " << hex(y) << ", interpreted " << hex(x)
                 << "\n";
  }
  if (wrong)
    llvm::errs() << "error: " << what << ": " << wrong << " of "
                 << expected.type.getNumElements() << " elements differ\n";
  return wrong == 0;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

static int fail(fp8rt_error *error) {
  llvm::errs() << "error: " << fp8rt_error_message(error) << "\n";
  fp8rt_free_error(error);
  return 1;
}

/// The elements of a strided result, in row-major order.
static std::vector<uint8_t> gather(const fp8rt_result_info &info,
                                   const uint8_t *data, size_t width) {
  size_t count = 1;
  for (size_t dim = 0; dim < info.rank; ++dim)
    count *= info.shape[dim];
  std::vector<uint8_t> bytes(count * width);
  for (size_t i = 0; i < count; ++i) {
    size_t rest = i;
    int64_t position = 0;
    for (size_t dim = info.rank; dim-- > 0;) {
      position += int64_t(rest % info.shape[dim]) * info.strides[dim];
      rest /= info.shape[dim];
    }
    std::copy_n(data + position * int64_t(width), width,
                bytes.begin() + i * width);
  }
  return bytes;
}

/// Replaces the arguments by the contents of the files given.
static LogicalResult readInputs(MutableArrayRef<HostTensor> arguments) {
  if (dataPaths.size() != arguments.size()) {
    llvm::errs() << "error: expected " << arguments.size()
                 << " input files, but got " << dataPaths.size() << "\n";
    return failure();
  }
  for (auto [path, tensor] : llvm::zip_equal(dataPaths, arguments)) {
    std::string error;
    std::optional<std::string> bytes = fp8rt::readWholeFile(path, error);
    if (bytes && bytes->size() != tensor.bytes.size())
      error = "expected " + std::to_string(tensor.bytes.size()) +
              " bytes in '" + path + "', but got " +
              std::to_string(bytes->size());
    if (!error.empty()) {
      llvm::errs() << "error: " << error << "\n";
      return failure();
    }
    tensor.bytes.assign(bytes->begin(), bytes->end());
  }
  return success();
}

static LogicalResult writeOutput(Twine name, ArrayRef<uint8_t> bytes) {
  std::string error;
  if (fp8rt::writeFileAtomically(
          (outputFolder + "/" + name + ".bin").str(),
          std::string_view(reinterpret_cast<const char *>(bytes.data()),
                           bytes.size()),
          error))
    return success();
  llvm::errs() << "error: " << error << "\n";
  return failure();
}

static int runFunction(fp8rt_program *program, size_t number,
                       func::FuncOp function, Data data) {
  fp8rt_error *error = nullptr;
  fp8rt_runner_options options{};
  options.struct_size = sizeof(options);
  fp8rt_runner *runner = nullptr;
  if (fp8rt_create_runner(program, number, &options, &runner, &error))
    return fail(error);
  std::vector<HostTensor> interpreted;
  for (Type type : function.getArgumentTypes()) {
    interpreted.push_back(HostTensor::zeros(cast<RankedTensorType>(type)));
    fill(interpreted.back(), data, interpreted.size());
  }
  if (!dataPaths.empty() && failed(readInputs(interpreted)))
    return 1;
  std::vector<HostTensor> compiled = interpreted;
  // Caller-placed results, and every pointer the runtime wants.
  std::vector<void *> arguments, results;
  for (HostTensor &tensor : compiled)
    arguments.push_back(tensor.bytes.data());
  fp8rt_function_info info;
  fp8rt_get_function(program, number, &info);
  std::vector<std::vector<uint8_t>> storage(info.result_count);
  for (size_t i = 0; i < info.result_count; ++i) {
    fp8rt_result_info result;
    fp8rt_get_result(program, number, i, &result);
    storage[i].resize(result.caller_bytes + 1);
    results.push_back(storage[i].data());
  }
  size_t arenaBytes = fp8rt_runner_arena_bytes(runner);
  void *arena = std::aligned_alloc(256, llvm::alignTo(arenaBytes + 1, 256));
  int code = 0;
  if (fp8rt_run(runner, arguments.data(), results.data(), arena, arenaBytes,
                nullptr, &error))
    code = fail(error);
  FailureOr<std::vector<HostTensor>> expected = failure();
  if (dataPaths.empty() && failed(expected = interpret(function, interpreted)))
    code = 1;
  for (size_t i = 0; code == 0 && i < function.getNumResults(); ++i) {
    fp8rt_result_info result;
    fp8rt_get_result(program, number, i, &result);
    size_t width = cast<RankedTensorType>(function.getResultTypes()[i])
                       .getElementTypeBitWidth() /
                   8;
    std::vector<uint8_t> bytes = gather(
        result,
        static_cast<const uint8_t *>(fp8rt_runner_result_data(runner, i)),
        width);
    if (!dataPaths.empty()) {
      if (failed(writeOutput("result" + Twine(i), bytes)))
        code = 1;
      continue;
    }
    if (!compare((*expected)[i], bytes.data(),
                 "@" + function.getName() + " on " + nameOf(data) +
                     ": result '" + result.name + "'"))
      code = 1;
  }
  for (size_t i = 0; !dataPaths.empty() && i < compiled.size(); ++i)
    if (function.getArgAttr(i, kStateAttr) &&
        failed(writeOutput("argument" + Twine(i), compiled[i].bytes)))
      code = 1;
  for (auto [number, before, after] : llvm::enumerate(interpreted, compiled))
    // What a donated argument holds afterwards is no one's business.
    if (code == 0 && dataPaths.empty() &&
        !function.getArgAttr(number, kDonatedAttr) &&
        !compare(before, after.bytes.data(),
                 "@" + function.getName() + " on " + nameOf(data) +
                     ": an argument"))
      code = 1;
  fp8rt_destroy_runner(runner);
  std::free(arena);
  return code;
}

//===----------------------------------------------------------------------===//
// On an emulated GPU
//===----------------------------------------------------------------------===//

namespace {

/// The storage of a program's values: of each kernel result on its own, so that
/// an access out of bounds is seen.
class Emulation {
public:
  explicit Emulation(fp8test::PtxModule &ptx) : ptx(ptx) {}

  using Bytes = std::shared_ptr<std::vector<uint8_t>>;
  void set(Value value, Bytes bytes) { storage[value] = std::move(bytes); }
  Bytes get(Value value) const { return storage.lookup(getRoot(value)); }
  LogicalResult run(Block &block);

private:
  LogicalResult run(KernelOp kernel);

  fp8test::PtxModule &ptx;
  llvm::DenseMap<Value, Bytes> storage; // looked up only
};

} // namespace

LogicalResult Emulation::run(KernelOp kernel) {
  std::vector<Bytes> arguments;
  for (Value operand : kernel.getInputs())
    arguments.push_back(get(operand));
  for (auto [i, result] : llvm::enumerate(kernel.getResults())) {
    int64_t over = kernel.getInPlace() ? (*kernel.getInPlace())[i] : -1;
    Value begun = getAliasedOperand(result);
    Bytes bytes = over >= 0 ? arguments[over]
                  : begun   ? get(begun)
                            : std::make_shared<std::vector<uint8_t>>(
                                  getByteSize(result.getType()), 0xFF);
    set(result, bytes);
    arguments.push_back(bytes);
  }
  if (kernel.getWorkspace() > 0)
    arguments.push_back(std::make_shared<std::vector<uint8_t>>(
        int64_t(kernel.getWorkspace()), 0xFF));
  std::vector<fp8test::PtxModule::Buffer> buffers;
  for (const Bytes &bytes : arguments)
    buffers.push_back({bytes->data(), bytes->size()});
  if (std::optional<ArrayAttr> fills = kernel.getFills())
    for (FillAttr fill : fills->getAsRange<FillAttr>())
      std::fill_n(buffers[fill.getBuffer()].data, fill.getBytes(), 0);
  for (LaunchAttr launch : kernel.getLaunches()->getAsRange<LaunchAttr>()) {
    std::string error;
    if (!ptx.launch(launch.getSymbol().str(), launch.getGrid()[0],
                    launch.getBlock()[0], launch.getShared(), buffers, error))
      return kernel.emitError() << error;
  }
  return success();
}

LogicalResult Emulation::run(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (auto kernel = dyn_cast<KernelOp>(op)) {
      if (failed(run(kernel)))
        return failure();
    } else if (!isView(&op) && !isa<FreeOp>(op)) {
      return op.emitError() << "expected kernels, views and frees";
    }
  }
  return success();
}

static int emulateFunction(fp8test::PtxModule &ptx, func::FuncOp lowered,
                           func::FuncOp original, Data data) {
  std::vector<HostTensor> arguments;
  for (Type type : original.getArgumentTypes()) {
    arguments.push_back(HostTensor::zeros(cast<RankedTensorType>(type)));
    fill(arguments.back(), data, arguments.size());
  }
  Emulation emulation(ptx);
  for (auto [value, tensor] :
       llvm::zip_equal(lowered.getArguments(), arguments))
    emulation.set(value, std::make_shared<std::vector<uint8_t>>(
                             tensor.bytes.begin(), tensor.bytes.end()));
  Block &block = lowered.getBody().front();
  if (failed(emulation.run(block)))
    return 1;
  FailureOr<std::vector<HostTensor>> expected = interpret(original, arguments);
  if (failed(expected))
    return 1;
  int code = 0;
  std::string where = ("@" + original.getName() + " on " + nameOf(data)).str();
  for (auto [i, value] :
       llvm::enumerate(block.getTerminator()->getOperands())) {
    // A view of a result has no bytes of its own.
    if (getRoot(value) != value)
      continue;
    if (!compare((*expected)[i], emulation.get(value)->data(),
                 where + ": result " + Twine(i)))
      code = 1;
  }
  for (auto [i, tensor] : llvm::enumerate(arguments))
    if (!original.getArgAttr(i, kDonatedAttr) &&
        !compare(tensor, emulation.get(lowered.getArgument(i))->data(),
                 where + ": argument " + Twine(i)))
      code = 1;
  return code;
}

static int emulate(ModuleOp module, ModuleOp original) {
  FailureOr<std::string> text = compileToPTX(module);
  if (failed(text))
    return 1;
  if (assemble) {
    FailureOr<std::optional<std::string>> cubin = assembleCubin(module, *text);
    if (failed(cubin))
      return 1;
    if (!*cubin) {
      llvm::errs() << "error: no ptxas\n";
      return 1;
    }
    llvm::outs() << "assembled\n";
  }
  fp8test::PtxModule ptx;
  std::string error;
  if (!ptx.parse(*text, error)) {
    llvm::errs() << "error: " << error << "\n";
    return 1;
  }
  int code = 0;
  for (func::FuncOp function : original.getOps<func::FuncOp>()) {
    auto lowered = module.lookupSymbol<func::FuncOp>(function.getName());
    int own = 0;
    for (Data data : {Data::Normal, Data::Special, Data::Bits})
      own |= emulateFunction(ptx, lowered, function, data);
    if (own == 0)
      llvm::outs() << "@" << function.getName() << ": equal\n";
    code |= own;
  }
  return code;
}

int main(int argc, char **argv) {
  llvm::cl::ParseCommandLineOptions(
      argc, argv, "compiled kernels against the interpreter\n");
  DialectRegistry registry;
  mlir::fp8::registerDialectAndModels(registry);
  MLIRContext context(registry);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(inputPath, &context);
  if (!module)
    return 1;
  // The interpreter reads the program as it was written.
  OwningOpRef<ModuleOp> original(module->clone());
  bool gpu = targetName != "cpu";
  (*module)->setAttr(kTargetAttr, StringAttr::get(&context, targetName));
  PassManager passes(&context);
  bool formed = false;
  module->walk([&](KernelOp) { formed = true; });
  if (formed) {
    if (!gpu)
      placeKernels(*module);
  } else {
    passes.addPass(createFP8FormKernelsPass({/*fuse=*/"none"}));
    passes.addPass(createFP8InsertFreesPass());
    if (!gpu)
      passes.addPass(createFP8PlacePass());
  }
  if (gpu) {
    passes.addPass(createFP8ReserveWorkspacePass());
    FP8LowerToCUDAPassOptions options;
    options.chip = chipName;
    options.geometry = geometry;
    passes.addPass(createFP8LowerToCUDAPass(options));
  } else {
    passes.addPass(createFP8LowerToCPUPass());
  }
  if (failed(passes.run(*module)))
    return 1;
  if (gpu)
    return emulate(*module, *original);
  SmallString<128> path(artifactPath);
  std::optional<llvm::FileRemover> remover;
  if (path.empty()) {
    if (llvm::sys::fs::createTemporaryFile("fp8-kernel-test", "fp8a", path)) {
      llvm::errs() << "error: cannot make a temporary file\n";
      return 1;
    }
    remover.emplace(path);
  }
  if (failed(writeArtifact(*module, "{}", path)))
    return 1;
  if (artifactOnly)
    return 0;
  fp8rt_program *program = nullptr;
  fp8rt_error *error = nullptr;
  if (fp8rt_load_file(path.c_str(), "cpu", &program, &error))
    return fail(error);
  int code = 0;
  size_t number = 0;
  for (func::FuncOp function : original->getOps<func::FuncOp>()) {
    int own = 0;
    if (!dataPaths.empty()) {
      code = runFunction(program, number, function, Data::Normal);
      break;
    }
    for (Data data : {Data::Normal, Data::Special, Data::Bits})
      own |= runFunction(program, number, function, data);
    if (own == 0)
      llvm::outs() << "@" << function.getName() << ": equal\n";
    code |= own;
    ++number;
  }
  fp8rt_unload(program);
  return code;
}
