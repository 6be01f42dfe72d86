// client.js uses a server through the npm packages @grpc/grpc-js and @grpc/proto-loader, which share
// no code with Lethe: the protocol files are all that it has of us.
//
//     node client.js MODULES PROTO_FOLDER ADDRESS EXPORT_FOLDER
//
// MODULES is the folder with node_modules. Makes a tenant and a memory, inserts a batch, streams
// more in and reads the acknowledgements, queries, streams queries, forgets a subject, reads its
// certificate and exports the log to EXPORT_FOLDER, for a verifier. Prints one `name=value` line a
// figure; exits 1 at the first answer that is not as the protocol files say, 2 when used wrongly.
'use strict';
const fs = require('fs');
const { createRequire } = require('module');
const path = require('path');

if (process.argv.length !== 6) {
  console.error('usage: node client.js MODULES PROTO_FOLDER ADDRESS EXPORT_FOLDER');
  process.exit(2);
}
const [modules, protos, address, folder] = process.argv.slice(2);
const load = createRequire(path.resolve(modules, 'client.js'));
const grpc = load('@grpc/grpc-js');
const loader = load('@grpc/proto-loader');

const files = ['tenant', 'memory', 'certificate'].map((name) => `lethe/v1/${name}_service.proto`);
const definition = loader.loadSync(files, {
  includeDirs: [protos],
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
});
const { v1 } = grpc.loadPackageDefinition(definition).lethe;
const credentials = grpc.credentials.createInsecure();
const tenants = new v1.TenantService(address, credentials);
const memories = new v1.MemoryService(address, credentials);
const certificates = new v1.CertificateService(address, credentials);

const unary = (service, method, request) =>
  new Promise((resolve, reject) => {
    service[method](request, { deadline: Date.now() + 30000 }, (error, answer) =>
      error ? reject(new Error(`${method}: ${error.message}`)) : resolve(answer));
  });
function demand(holds, what) {
  if (!holds) throw new Error(what);
}
const print = (name, value) => console.log(`${name}=${value}`);

const DIMENSION = 4;
// Numbers that a test can make again, in [-1, 1).
let state = 17;
function number() {
  state = (Math.imul(state, 1103515245) + 12345) >>> 0;
  return state / 2 ** 31 - 1;
}
const vector = () => Array.from({ length: DIMENSION }, number);
const token = (i) => ({
  id: `t${i}`,
  key: vector(),
  value: [number()],
  subject: `subject-${i % 25}`,
  payload: Buffer.from([i & 255, 0, 255]),
  labels: { source: 'grpc-js' },
});

async function stream(name, messages) {
  const call = memories.InsertStream();
  const acknowledged = [];
  let inserted = 0;
  const done = new Promise((resolve, reject) => {
    call.on('data', (answer) => {
      acknowledged.push(Number(answer.acknowledgedSequence));
      inserted += Number(answer.inserted);
    });
    call.on('end', resolve);
    call.on('error', reject);
  });
  let sequence = 0;
  for (const tokens of messages) {
    sequence += 1;
    const more = call.write({ ...(sequence === 1 ? name : {}), sequence, tokens });
    if (!more) await new Promise((resolve) => call.once('drain', resolve));
  }
  call.end();
  await done;
  demand(acknowledged.at(-1) === sequence, 'InsertStream: the last sequence is not acknowledged');
  demand(acknowledged.every((s, i) => i === 0 || s > acknowledged[i - 1]),
    'InsertStream: acknowledgements do not increase');
  return inserted;
}

async function queries(requests) {
  const call = memories.QueryStream();
  const answers = [];
  const done = new Promise((resolve, reject) => {
    call.on('data', (answer) => answers.push(answer));
    call.on('end', resolve);
    call.on('error', reject);
  });
  for (const request of requests) call.write(request);
  call.end();
  await done;
  return answers;
}

async function exportLog(tenant) {
  const call = certificates.Export({ tenant });
  let out = null;
  let bytes = 0;
  let count = 0;
  let last = null;
  for await (const piece of call) {
    last = piece;
    if (piece.path !== '') {
      if (out !== null) fs.closeSync(out);
      const file = path.join(folder, path.normalize('/' + piece.path));
      fs.mkdirSync(path.dirname(file), { recursive: true });
      out = fs.openSync(file, 'wx');
      count += 1;
    }
    if (piece.data.length > 0) fs.writeSync(out, piece.data);
    bytes += piece.data.length;
  }
  if (out !== null) fs.closeSync(out);
  demand(last !== null && last.done, 'Export: not whole');
  demand(Number(last.files) === count && Number(last.bytes) === bytes, 'Export: other counts');
  return count;
}

async function main() {
  const name = { tenant: 'foreign', memory: 'visits' };
  const made = await unary(tenants, 'CreateTenant', { name: name.tenant });
  print('verification_key', made.verificationKey);
  await unary(memories, 'CreateMemory', {
    tenant: name.tenant,
    name: name.memory,
    config: { kernel: { rbf: { gamma: 0.25 } }, capacity: 20, keyDimension: DIMENSION, valueDimension: 1 },
  });
  const batch = Array.from({ length: 100 }, (_, i) => token(i));
  const inserted = await unary(memories, 'Insert', { ...name, tokens: batch });
  demand(inserted.inserted === '100', `Insert: ${inserted.inserted} of 100`);
  const again = await unary(memories, 'Insert', { ...name, tokens: batch });
  demand(again.unchanged === '100', `Insert again: ${again.unchanged} of 100 unchanged`);

  const messages = Array.from({ length: 20 }, (_, m) =>
    Array.from({ length: 50 }, (_, i) => token(100 + 50 * m + i)));
  print('streamed', await stream(name, messages));

  const answer = await unary(memories, 'Query', { ...name, queries: [{ values: vector() }], topTokens: 3 });
  demand(answer.results.length === 1 && Number.isFinite(answer.results[0].readout[0]), 'Query: no readout');
  demand(answer.results[0].tokens.length === 3, 'Query: not three tokens');
  const asked = Array.from({ length: 50 }, () => ({ ...name, queries: [{ values: vector() }] }));
  print('queried', (await queries(asked)).length);

  // A request with a fault is refused by the field's name.
  const refused = await unary(memories, 'Query', { ...name, queries: [{ values: [1] }] })
    .then(() => '', (error) => error.message);
  demand(refused.includes('queries[0]'), `Query with a short key: ${refused}`);

  const forgotten = await unary(memories, 'Forget', { ...name, subject: 'subject-7' });
  print('erased', forgotten.erased);
  print('verdict', forgotten.verdict);
  const rest = await unary(memories, 'Forget', { ...name, subject: 'subject-7', dryRun: true });
  demand(rest.matched === '0', 'Forget: the subject is still there');
  const certificate = await unary(certificates, 'GetCertificate', {
    tenant: name.tenant,
    id: forgotten.certificateId,
  });
  demand(certificate.kind === 'forget' && certificate.envelope.length > 0, 'GetCertificate: not it');
  print('exported_files', await exportLog(name.tenant));
}

main().then(() => process.exit(0), (error) => {
  console.error(`grpc-js: ${error.message}`);
  process.exit(1);
});
