// One start of a CPython built for WebAssembly, for test_python_314.py: node pyodide_runner.mjs SPEC.json
// SPEC: pyodide (the npm package's folder), site (a folder that becomes site-packages), mounts (path inside -> folder),
// env, and calls: [[name, arguments], ...] of functions in pyodide_probe.py, made in turn in that one interpreter.
// Prints one JSON object: results (in the order of the calls), stdout and stderr (lines, from the very start on).
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const spec = JSON.parse(readFileSync(process.argv[2], "utf8"));
const { loadPyodide } = await import(pathToFileURL(join(spec.pyodide, "pyodide.mjs")));
const stdout = [];
const stderr = [];

function mount(FS, inside, folder) {
  FS.mkdirTree(inside);
  FS.mount(FS.filesystems.NODEFS, { root: folder }, inside);
}

try {
  const python = await loadPyodide({
    env: { HOME: "/home/pyodide", ...spec.env },
    stdout: (line) => stdout.push(line),
    stderr: (line) => stderr.push(line),
    // Before the interpreter starts, so that its own `site` reads our files.
    fsInit: async (FS, { sitePackages }) => {
      mount(FS, "/probe", dirname(fileURLToPath(import.meta.url)));
      for (const [inside, folder] of Object.entries(spec.mounts)) mount(FS, inside, folder);
      if (spec.site) mount(FS, sitePackages, spec.site);
    },
  });
  python.globals.set("calls_as_json", JSON.stringify(spec.calls));
  const results = python.runPython(`
import json, sys
sys.path.append("/probe")
import pyodide_probe
json.dumps([getattr(pyodide_probe, name)(**arguments) for name, arguments in json.loads(calls_as_json)])
`);
  process.stdout.write(JSON.stringify({ results: JSON.parse(results), stdout, stderr }) + "\n");
} catch (error) {
  // Node would print the line of minified source that threw, a megabyte long.
  process.stderr.write(stderr.join("\n") + "\n" + String(error.message).slice(-4000) + "\n");
  process.exitCode = 1;
}
