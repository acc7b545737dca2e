// kv f32: cache values as they are
// shapes: one element holds 4 consecutive values
// grid: none (library)
// limits: none
alias W_elem = vec4<f32>;
fn W_decode(e: W_elem) -> vec4<f32> { return e; }
fn W_encode(v: vec4<f32>) -> W_elem { return v; }
