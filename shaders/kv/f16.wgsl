// kv f16: cache values as pairs of float16, without the shader-f16 feature
// shapes: one element holds 4 consecutive values
// grid: none (library)
// limits: values beyond 65504 are clamped, since packing them is undefined
alias W_elem = vec2<u32>;
fn W_decode(e: W_elem) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(e.x), unpack2x16float(e.y));
}
fn W_encode(v: vec4<f32>) -> W_elem {
  let c = clamp(v, vec4<f32>(-65504.0), vec4<f32>(65504.0));
  return vec2<u32>(pack2x16float(c.xy), pack2x16float(c.zw));
}
