//! Writes Rust declarations of RocksDB 11.8's `c.h`, in bindgen's form.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let bindings = esker_capi_surface::shim_bindings(3);
    std::fs::write(std::path::Path::new(&out).join("bindings.rs"), bindings).expect("OUT_DIR can be written");
}
