// Runs the recipes that are JavaScript, as AWS Lambda and Apigee do: reads a line of JSON for each request, and writes one.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

// lambda is what API Gateway gets of the function: a verdict, or the text of an error.
async function lambda({ file, event }) {
  const { handler } = await import(pathToFileURL(file));
  try {
    return { verdict: await handler(event) };
  } catch (error) {
    return { error: error.message };
  }
}

// apigee runs the script of a Javascript policy with the flow's variables.
function apigee({ script, variables }) {
  const context = {
    getVariable: (name) => variables[name] ?? null,
    setVariable: (name, value) => { variables[name] = value; },
  };
  vm.runInNewContext(script, { context });
  return { variables };
}

for await (const line of createInterface({ input: process.stdin })) {
  const input = JSON.parse(line);
  console.log(JSON.stringify(input.script ? apigee(input) : await lambda(input)));
}
