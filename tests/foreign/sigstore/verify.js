// verify.js judges Sigstore bundles with the npm packages @sigstore/bundle and @sigstore/verify, which
// share no code with Lethe.
//
//     node verify.js MODULES VKEY[,VKEY...] FILE...
//
// MODULES is the folder with node_modules. The keys are pinned; any of them may have signed the
// certificate or the checkpoint. Prints a line a refused file and a count; exits 1 when one is refused,
// 2 when it is used wrongly.
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const { createRequire } = require('module');
const path = require('path');

if (process.argv.length < 5) {
  console.error('usage: node verify.js MODULES VKEY[,VKEY...] FILE...');
  process.exit(2);
}
const [modules, vkeys, ...files] = process.argv.slice(2);
const load = createRequire(path.resolve(modules, 'judge.js'));
const { bundleFromJSON } = load('@sigstore/bundle');
const { toSignedEntity, toTrustMaterial, Verifier } = load('@sigstore/verify');

const prefix = Buffer.from('302a300506032b6570032100', 'hex');
const keys = {};
const tlogs = [];
for (const vkey of vkeys.split(',')) {
  const at = vkey.indexOf('+');
  const name = vkey.slice(0, at);
  const hint = vkey.slice(0, at + 9);
  const raw = Buffer.from(vkey.slice(at + 10), 'base64').subarray(1);
  const spki = Buffer.concat([prefix, raw]);
  keys[hint] = { rawBytes: spki };
  const id = crypto.createHash('sha256').update(name + '\n\x01').update(raw).digest();
  tlogs.push({
    baseUrl: 'https://' + name,
    hashAlgorithm: 1,
    publicKey: { rawBytes: spki, keyDetails: 7 },
    logId: { keyId: id },
    checkpointKeyId: undefined,
  });
}
const material = toTrustMaterial(
  { certificateAuthorities: [], timestampAuthorities: [], tlogs, ctlogs: [] },
  (hint) => {
    if (!(hint in keys)) throw new Error('key not found: ' + hint);
    const key = crypto.createPublicKey({ key: keys[hint].rawBytes, format: 'der', type: 'spki' });
    return { publicKey: key, validFor: () => true };
  },
);
const verifier = new Verifier(material, { tlogThreshold: 1, timestampThreshold: 0, ctlogThreshold: 0 });

let refused = 0;
for (const file of files) {
  try {
    verifier.verify(toSignedEntity(bundleFromJSON(JSON.parse(fs.readFileSync(file, 'utf8')))));
  } catch (error) {
    refused += 1;
    console.log(`refused ${file}: ${error.code ?? error.name}: ${error.message}`);
  }
}
console.log(`${files.length - refused} of ${files.length} bundles verified`);
process.exit(refused === 0 ? 0 : 1);
