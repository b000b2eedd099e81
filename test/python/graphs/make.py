#!/usr/bin/env python3
# ===- make.py - writes the dumps of this folder ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The dumps let the tests of import, planning and explanation run without torch. Run this with torch, transformers and
# torchao when the schema changes: PYTHONPATH=python python test/python/graphs/make.py
#
# ===------------------------------------------------------------=== #
"""Capture the models of torch_models.py and write them beside this file."""

import pathlib
import sys

import torch

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER.parents[2] / "python")]

import torch_models as models

import fp8opt

NAMES = ("mlp", "llama_block", "tied", "dropout", "view_of_view", "custom")


def main():
    made = {name: models.MODELS[name] for name in NAMES}
    made["float8_checkpointed"] = lambda: models.float8_checkpointed(layers=2)
    for name, model in made.items():
        torch.manual_seed(0)
        module, inputs, keywords = model()
        fp8opt.capture(module, *inputs, kwargs=keywords, name=name).save(FOLDER / f"{name}.json")


if __name__ == "__main__":
    main()
