# ===- setup.py - the tag of the wheel ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Everything else is in pyproject.toml. With libraries in it the package is for one platform, yet for every Python 3: they
# are loaded by ctypes.
#
# ===---------------------------------------------=== #
import pathlib

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel

HAS_LIBRARIES = (pathlib.Path(__file__).parent / "fp8opt" / "lib").exists()


class Binary(Distribution):
    def has_ext_modules(self):
        return HAS_LIBRARIES


class Wheel(bdist_wheel):
    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(distclass=Binary, cmdclass={"bdist_wheel": Wheel})
