import h5wasm from "h5wasm/node";
import { existsSync } from "node:fs";

await h5wasm.ready;
for (let step = 0; existsSync(`plt000${step}.h5`); step += 1) {
  const file = new h5wasm.File(`plt000${step}.h5`, "r");
  const sum = file.get("x").value.reduce((total, value) => total + value, 0);
  console.log(step, file.get("x").shape.join("x"), sum, file.get("about").attrs.step.value);
  file.close();
}
