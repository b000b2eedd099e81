// Two layers of one op each. Forward makes %a and %b, backward reads both.
func.func @step(%x: tensor<1024xf32> loc("x"), %dy: tensor<1024xf32> {fp8.tangent} loc("dy")) -> (tensor<1024xf32>, tensor<1024xf32>) {
  %y, %dx = fp8.step -> (tensor<1024xf32>, tensor<1024xf32>) forward {
    %a = fp8.opaque "first"(%x) : (tensor<1024xf32>) -> tensor<1024xf32> loc("a")
    %b = fp8.opaque "second"(%a) : (tensor<1024xf32>) -> tensor<1024xf32> loc("b")
    %y_0 = fp8.opaque "third"(%b) : (tensor<1024xf32>) -> tensor<1024xf32> loc("y")
    fp8.yield %y_0 residuals(%a, %b) : tensor<1024xf32> residuals(tensor<1024xf32>, tensor<1024xf32>)
  } backward (%a_r: tensor<1024xf32>, %b_r: tensor<1024xf32>) {
    %db = fp8.opaque "third_backward"(%dy, %b_r) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32> loc("db")
    %dx_0 = fp8.opaque "second_backward"(%db, %a_r) : (tensor<1024xf32>, tensor<1024xf32>) -> tensor<1024xf32> loc("dx")
    fp8.yield %dx_0 : tensor<1024xf32>
  }
  return %y, %dx : tensor<1024xf32>, tensor<1024xf32>
}
