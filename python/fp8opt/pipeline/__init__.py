# ===- __init__.py - pipeline schedules ---*- Python -*-=== #
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Pipeline schedules and what they keep in flight.
#
# ===--------------------------------------------------------===#
"""Pipeline schedules and what they keep in flight."""

from .schedules import SCHEDULES, Schedule, Step, check_sizes, make_schedule, read_schedule, stage_of
from .simulate import Durations, Point, Timed, check_schedule, idle_fraction, in_flight, peak_in_flight, run

__all__ = [
    "Durations",
    "Point",
    "SCHEDULES",
    "Schedule",
    "Step",
    "Timed",
    "check_schedule",
    "check_sizes",
    "idle_fraction",
    "in_flight",
    "make_schedule",
    "peak_in_flight",
    "read_schedule",
    "run",
    "stage_of",
]
