// validate.mjs MODULES FILE...: every object of rendered manifests against the schemas of Kubernetes,
// cert-manager, KEDA and the operator of Prometheus, as the npm packages kubernetes-models have them: values by
// their validators, and names of fields, which those let pass, by the types of TypeScript.
//
// MODULES is the folder with node_modules. Prints a line a fault; exits 1 on any, 2 when used wrongly.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, ...files] = process.argv.slice(2);
if (files.length === 0) {
  console.error('usage: node validate.mjs MODULES FILE...');
  process.exit(2);
}
const load = createRequire(path.resolve(modules, 'validate.mjs'));
const yaml = load('yaml');
const ts = load('typescript');

// The package and folder that have an API's kinds.
function moduleOf(apiVersion) {
  const [group, version] = apiVersion.includes('/') ? apiVersion.split('/') : ['', apiVersion];
  const others = {
    'cert-manager.io': '@kubernetes-models/cert-manager',
    'keda.sh': '@kubernetes-models/keda',
    'monitoring.coreos.com': '@kubernetes-models/prometheus-operator',
  };
  return [others[group] ?? 'kubernetes-models', group, version].filter((part) => part !== '').join('/');
}
async function modelOf(thing) {
  const name = moduleOf(thing.apiVersion);
  const folder = path.resolve(modules, 'node_modules', name);
  if (!fs.existsSync(path.join(folder, 'index.js'))) return null;
  return (await import(pathToFileURL(path.join(folder, 'index.js')).href))[thing.kind] ?? null;
}

const faults = [];
const program = [];
const lines = []; // of the program: whose they are
let count = 0;
for (const file of files) {
  for (const document of yaml.parseAllDocuments(fs.readFileSync(file, 'utf8'))) {
    const thing = document.toJS();
    if (thing === null) continue;
    const who = `${path.basename(file)}: ${thing.kind}/${thing.metadata?.name}`;
    count += 1;
    const Model = await modelOf(thing);
    if (Model === null) {
      faults.push(`${who}: no schema of ${thing.apiVersion}`);
      continue;
    }
    try {
      new Model(thing).validate();
    } catch (error) {
      faults.push(`${who}: ${error.message}`);
    }
    program.push(`import type { I${thing.kind} as T${count} } from '${moduleOf(thing.apiVersion)}';`);
    program.push(`const o${count}: T${count} = ${JSON.stringify(thing)};`);
    lines.push(who, who);
  }
}

const source = path.resolve(modules, 'objects.ts');
fs.writeFileSync(source, program.join('\n'));
const checked = ts.createProgram([source], {
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  noEmit: true,
  skipLibCheck: true,
  strict: true,
  types: [],
});
for (const diagnostic of ts.getPreEmitDiagnostics(checked)) {
  const at = diagnostic.file?.getLineAndCharacterOfPosition(diagnostic.start ?? 0);
  faults.push(`${at ? lines[at.line] : source}: ${ts.flattenDiagnosticMessageText(diagnostic.messageText, ' ')}`);
}
for (const fault of faults) console.log(fault);
if (faults.length === 0) console.log(`schemas: ${count} objects are valid`);
process.exit(faults.length === 0 ? 0 : 1);
