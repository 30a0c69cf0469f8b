import h5wasm from "h5wasm/node";

await h5wasm.ready;
for (let step = 0; step < 4; step += 1) {
  const file = new h5wasm.File(`plt000${step}.h5`, "w");
  file.create_dataset({ name: "x", data: Float64Array.from({ length: 1000 }, (_, k) => k * step), shape: [10, 100] });
  file.create_group("about").create_attribute("step", step);
  file.close();
}
