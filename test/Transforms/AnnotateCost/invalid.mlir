// RUN: fp8-opt %s -split-input-file -verify-diagnostics -fp8-annotate-cost

// expected-error @below {{expected 'fp8.target' to be one of "cpu", "h200", but got "h100"}}
module attributes {fp8.target = "h100"} {
}
