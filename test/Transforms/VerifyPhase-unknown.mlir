// RUN: fp8-opt %s -verify-diagnostics -fp8-verify-phase=phase=lowered

// expected-error@+1 {{expected phase 'import', 'joint', 'planned' or 'placed', but got 'lowered'}}
module {}
