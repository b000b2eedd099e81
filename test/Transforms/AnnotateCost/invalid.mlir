// RUN: fp8-opt %s -split-input-file -verify-diagnostics -fp8-annotate-cost

// expected-error @below {{'fp8.target': expected a target ending in '.json' or one of "cpu", "h200", "h100", "b200", but got "h1000"}}
module attributes {fp8.target = "h1000"} {
}
