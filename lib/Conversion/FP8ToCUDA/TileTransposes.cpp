//===- TileTransposes.cpp - transposed results of tiles ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Neighbours of a column are packed in registers and meet those of the other
// threads in shared memory, from where whole 128-byte columns go out.
//
//===----------------------------------------------------------------------===//

#include "fp8/Conversion/FP8ToCUDA/TileEmitter.h"

using namespace mlir;
using namespace mlir::fp8;

int64_t mlir::fp8::bytesOf(Value value) {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  return getElementBits(element) / 8;
}

CastOp mlir::fp8::castBehind(Value value, bool &flip) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto cast = dyn_cast<CastOp>(op))
      return cast.getSaturate() ? cast : CastOp();
    if (!isa<PermuteOp, TransposeOp>(op))
      return {};
    ArrayRef<int64_t> perm = isa<PermuteOp>(op)
                                 ? cast<PermuteOp>(op).getPerm()
                                 : cast<TransposeOp>(op).getPerm();
    flip ^= !llvm::is_sorted(perm);
    value = op->getOperand(0);
  }
  return {};
}

void TileEmitter::emitTransposed(unsigned stage) {
  SmallVector<Transposed> transposed;
  for (const LaunchItem &item : c.launch().items)
    if (isTransposed(item) && stageOf(item.value) == stage)
      transposed.push_back({&item});
  // As many transposed results at once as shared memory holds.
  for (size_t from = 0, to = 0; from < transposed.size(); from = to) {
    int64_t bytes = 0;
    for (; to < transposed.size(); ++to) {
      int64_t more = kTile * kTile * bytesOf(transposed[to].item->value);
      if (bytes + more > stagingBytes)
        break;
      transposed[to].offset = bytes;
      bytes += more;
    }
    auto round = MutableArrayRef(transposed).slice(from, to - from);
    if (stagingUsed)
      d.barrier();
    stagingUsed = true;
    // A few rows at a time, so that what is computed on the way leaves the
    // registers early.
    for (int64_t first = 0; first < rowsOfThread; first += 4)
      for (Transposed &result : round)
        collectColumns(result, first, 4,
                       addressInStaging(result, d.i32(first)));
    d.barrier();
    for (Transposed &result : round)
      writeTransposed(result);
  }
}

/// Where row `first` of the thread stands in its first column. Column c of the
/// tile has 128 elements in shared memory, in pieces of 16 bytes whose order is
/// swizzled by the vector that c is in, so that neither the writes nor the
/// reads of a warp meet in a bank; within the pieces of the upper vectors the
/// words (8-bit elements) or the halves (16-bit) are in reverse.
Value TileEmitter::addressInStaging(const Transposed &result, Value first) {
  int64_t width = bytesOf(result.item->value), pitch = kTile * width;
  auto exclusiveOr = [&](Value x, Value y) -> Value {
    return arith::XOrIOp::create(body, loc, x, y);
  };
  Value upper = d.div(vector, 8);
  Value start = d.mul(group, rowsOfThread * width);
  Value piece =
      exclusiveOr(d.div(start, 16), d.bitAnd(vector, kTile * width / 16 - 1));
  Value within = d.add(d.bitAnd(start, 15), d.mul(first, width));
  within = exclusiveOr(within, d.mul(upper, width == 1 ? 12 : 8));
  Value offset = d.add(d.mul(vector, kVector * pitch), result.offset);
  return d.address(staging, d.add(d.add(offset, d.mul(piece, 16)), within),
                   body.getI8Type());
}

/// Packs `step` rows of each column, from the slot `first` on, and writes them
/// to shared memory; `to` is where those of the first column go.
void TileEmitter::collectColumns(Transposed &result, size_t first, int64_t step,
                                 Value to) {
  Value value = result.item->value;
  int64_t width = bytesOf(value);
  bool flip = true;
  SmallVector<SmallVector<Value>> parts(kVector); // a column
  CastOp cast = width == 1 ? castBehind(value, flip) : CastOp();
  if (width == 2 || cast) {
    for (size_t k = first; k < first + step; k += 2) {
      const Slot &low = slots[k], &high = slots[k + 1];
      if (cast) {
        // The conversion itself packs neighbours along the column.
        Type format = cast.getType().getElementType();
        SmallVector<Value> a = e.castProducts(cast, flip, low);
        SmallVector<Value> b = e.castProducts(cast, flip, high);
        for (int64_t j = 0; j < kVector; ++j)
          parts[j].push_back(d.packF8(b[j], a[j], format));
        continue;
      }
      ArrayRef<Value> a = e.pairsOf(e.evaluate(value, true, low));
      ArrayRef<Value> b = e.pairsOf(e.evaluate(value, true, high));
      for (int64_t j = 0; j < kVector; ++j)
        parts[j].push_back(d.permuteBytes(a[a.size() == 1 ? 0 : j / 2],
                                          b[b.size() == 1 ? 0 : j / 2],
                                          j % 2 ? 0x7632 : 0x5410));
    }
  } else {
    // Bytes that are there already: four rows make a word of each column.
    for (size_t half : {0, 1}) {
      Value w[4];
      for (size_t k = 0; k < 4; ++k)
        w[k] = e.evaluate(value, true, slots[first + k]).codes[half];
      Value low01 = d.permuteBytes(w[0], w[1], 0x5140);
      Value low23 = d.permuteBytes(w[2], w[3], 0x5140);
      Value high01 = d.permuteBytes(w[0], w[1], 0x7362);
      Value high23 = d.permuteBytes(w[2], w[3], 0x7362);
      for (int64_t j : {0, 1}) {
        int64_t selector = j ? 0x7632 : 0x5410;
        parts[4 * half + j] = {d.permuteBytes(low01, low23, selector)};
        parts[4 * half + 2 + j] = {d.permuteBytes(high01, high23, selector)};
      }
    }
  }
  for (auto [j, part] : llvm::enumerate(parts)) {
    Value data = part.size() == 1 ? part[0] : d.pack(part);
    d.store(d.address(to, d.i32(j * kTile * width), body.getI8Type()), data,
            step * width);
  }
}

/// Writes what all threads put into shared memory.
void TileEmitter::writeTransposed(const Transposed &result) {
  auto [rows, cols] = rules.getSpace();
  Type i8 = body.getI8Type(), i32 = body.getI32Type();
  int64_t width = bytesOf(result.item->value);
  int64_t pitch = kTile * width, pieces = pitch / 16;
  // Columns are as long as those of what this is a piece of.
  int64_t length = rows;
  Value yielded = c.body.getTerminator()->getOperand(result.item->result);
  if (auto update = yielded.getDefiningOp<UpdateSliceOp>())
    length = getPiecePitch(update);
  for (int64_t first = 0; first < kTile * pieces; first += threads) {
    Value number = d.add(id, first);
    Value tileColumn = d.div(number, pieces), piece = d.rem(number, pieces);
    Value owner = d.div(tileColumn, kVector);
    Value where =
        arith::XOrIOp::create(body, loc, piece, d.bitAnd(owner, pieces - 1));
    Value offset = d.add(d.mul(tileColumn, pitch), d.mul(where, 16));
    Value from = d.address(staging, d.add(offset, result.offset), i8);
    SmallVector<Value> w =
        d.unpack(d.load(from, VectorType::get({4}, i32), 16));
    Value lower = d.below(owner, 8);
    SmallVector<Value> data;
    for (int64_t i = 0; i < 4; ++i)
      data.push_back(d.select(lower, w[i], w[i ^ (width == 1 ? 3 : 2)]));
    Value col = d.add(tileCol, d.extend(tileColumn));
    Value row = d.add(tileRow, d.extend(d.mul(piece, 16 / width)));
    Value inside;
    if (cols % kTile != 0)
      inside = d.below(col, cols);
    if (rows % kTile != 0)
      inside = both(inside, d.below(row, rows));
    guarded(inside, [&] {
      Value position = d.add(d.mul(col, length), row);
      d.store(d.address(c.resultPointer(result.item->result), position,
                        width == 1 ? i8 : Type(body.getI16Type())),
              d.pack(data), 16);
    });
  }
}
