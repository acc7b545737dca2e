// lanes (rows family): every thread is a unit of its own, nothing is shared, no barriers
// shapes: unit = workgroup * WG_SIZE + thread
// grid: ceil(units / WG_SIZE) workgroups
// limits: none; for software adapters, where a barrier costs more than the work around it
fn L_unit(group: u32, li: u32) -> u32 { return group * WG_SIZE + li; }
fn L_first(li: u32) -> u32 { return 0u; }
fn L_stride() -> u32 { return 1u; }
fn L_sum4(v: vec4<f32>, li: u32) -> vec4<f32> { return v; }
fn L_sum12(v: mat3x4<f32>, li: u32) -> mat3x4<f32> { return v; }
// One thread is the whole of a norm's workgroup here.
fn L_sum_all(v: f32, li: u32) -> f32 { return v; }
