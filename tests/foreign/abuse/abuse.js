// abuse.js does to a server what strangers do, through Node's own sockets and HTTP/2. For servers of
// one's own.
//
//     node abuse.js GRPC_ADDRESS HTTP_ADDRESS PID [NAME...]
//
// Needs a server without access control that has the memory abused/visits. Prints for each abuse
// `NAME=ok` or `NAME=wrong: WHY`, what the server answered, and its resident memory afterwards; at
// the end the peak. Exits 0 when every abuse was met as it should, 1 otherwise.
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const http2 = require('http2');
const net = require('net');
const zlib = require('zlib');

if (process.argv.length < 5) {
  console.error('usage: node abuse.js GRPC_ADDRESS HTTP_ADDRESS PID [NAME...]');
  process.exit(2);
}
const [grpc, web, pid, ...only] = process.argv.slice(2);
const host = (address) => address.slice(0, address.lastIndexOf(':'));
const port = (address) => Number(address.slice(address.lastIndexOf(':') + 1));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const status = (name) =>
  Number(/\d+/.exec(new RegExp(`${name}:.*`).exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8')))[0]) / 1024;

function demand(holds, what) {
  if (!holds) throw new Error(what);
}
function within(promise, ms, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: nothing in ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function session(settings = {}) {
  const connection = http2.connect(`http://${grpc}`, { settings });
  connection.on('error', () => {});
  return connection;
}
const call = (connection, method, more = {}) => {
  const stream = connection.request({
    ':method': 'POST',
    ':path': `/lethe.v1.${method}`,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...more,
  }, { endStream: false });
  stream.on('error', () => {});
  return stream;
};
// The grpc-status that ends a stream; -1 when it is reset instead.
const ended = (stream) => new Promise((resolve) => {
  let code = -1;
  const note = (headers) => {
    if (headers['grpc-status'] !== undefined) code = Number(headers['grpc-status']);
  };
  stream.on('response', note);
  stream.on('trailers', note);
  stream.on('close', () => resolve(code));
  stream.resume();
});
function message(bytes, compressed = 0) {
  const head = Buffer.alloc(5);
  head.writeUInt8(compressed, 0);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}
// A QueryRequest or ExportRequest that names a tenant and a memory, with fields of protobuf by hand.
const field = (number, bytes) =>
  Buffer.concat([Buffer.from([number << 3 | 2, bytes.length]), Buffer.from(bytes)]);

// The status of an HTTP answer; 0 when the connection is ended without one.
function post(path, headers, body, agent) {
  return new Promise((resolve) => {
    const request = http.request({
      host: host(web), port: port(web), method: 'POST', path, agent,
      headers: { 'content-type': 'application/json', ...headers },
    }, (response) => {
      response.resume();
      response.on('end', () => resolve(response.statusCode));
      response.on('error', () => resolve(response.statusCode));
    });
    request.on('error', () => resolve(0));
    request.end(body);
  });
}
// Sends to a port until the other side ends the connection; true when it did.
function shout(address, pieces, pause, limit) {
  return new Promise((resolve) => {
    const socket = net.connect(port(address), host(address));
    const timer = setTimeout(() => { socket.destroy(); resolve(false); }, limit);
    const over = () => { clearTimeout(timer); resolve(true); };
    socket.on('error', () => {});
    socket.on('close', over);
    socket.resume();
    (async () => {
      for (const piece of pieces) {
        if (socket.destroyed) return;
        socket.write(piece);
        if (pause > 0) await sleep(pause);
      }
    })();
  });
}

const QUERY = '/v1/tenants/abused/memories/visits:query';
const abuses = {
  // A message that is larger than the limit, announced and sent.
  async long_messages() {
    const connection = session();
    const stream = call(connection, 'MemoryService/Insert');
    const code = ended(stream);
    const head = Buffer.alloc(5);
    head.writeUInt32BE(64 << 20, 1);
    stream.write(head);
    const piece = Buffer.alloc(1 << 20);
    for (let i = 0; i < 64 && !stream.closed && !stream.destroyed; i += 1) {
      if (!stream.write(piece)) await Promise.race([new Promise((r) => stream.once('drain', r)), code]);
    }
    const answer = await within(code, 20000, 'gRPC');
    connection.destroy();
    demand(answer === 8, `gRPC status ${answer}, not 8`);
    const large = await within(post(QUERY, { 'content-length': 1 << 30 }, undefined), 20000, 'HTTP');
    demand(large === 413, `HTTP status ${large}, not 413`);
    return 'RESOURCE_EXHAUSTED; 413';
  },
  // 100 connections of 100 calls each that never say more than their headers.
  async half_open_streams() {
    const connections = Array.from({ length: 100 }, () => session());
    let open = 0;
    for (const connection of connections) {
      for (let i = 0; i < 100; i += 1) {
        call(connection, i % 2 === 0 ? 'MemoryService/InsertStream' : 'MemoryService/Query');
        open += 1;
      }
      await sleep(10);
    }
    await sleep(10000);
    connections.forEach((connection) => connection.destroy());
    return `${open} streams for 10 s`;
  },
  // Exports and streams of queries whose answers nobody takes.
  async slow_readers() {
    const connections = [];
    const asked = Buffer.concat([field(1, 'abused'), field(2, 'visits'),
      field(3, Buffer.concat([Buffer.from([10, 32]), Buffer.alloc(32)]))]);
    for (let i = 0; i < 32; i += 1) {
      const connection = session({ initialWindowSize: 0 });
      connections.push(connection);
      call(connection, 'CertificateService/Export').end(message(field(1, 'abused')));
      const stream = call(connection, 'MemoryService/QueryStream');
      for (let n = 0; n < 2000; n += 1) stream.write(message(asked));
    }
    await sleep(10000);
    connections.forEach((connection) => connection.destroy());
    return '32 exports and 32 streams of queries for 10 s';
  },
  // Calls that are taken back as soon as they are made.
  async rapid_resets() {
    let made = 0;
    for (let n = 0; n < 50; n += 1) {
      const connection = session();
      for (let i = 0; i < 2000 && !connection.destroyed && !connection.closed; i += 1) {
        try {
          call(connection, 'MemoryService/Query').close(http2.constants.NGHTTP2_CANCEL);
        } catch {
          break;
        }
        made += 1;
        if (i % 90 === 89) await new Promise((resolve) => setImmediate(resolve));
      }
      await sleep(20);
      connection.destroy();
    }
    demand(made >= 10000, `only ${made} calls could be made`);
    return `${made} calls`;
  },
  async garbage() {
    let closed = 0;
    const rounds = 200;
    for (let i = 0; i < rounds; i += 1) {
      const size = 1 + crypto.randomInt(65536);
      const both = await Promise.all([grpc, web].map((address) =>
        shout(address, [crypto.randomBytes(size)], 0, 30000)));
      closed += both.filter(Boolean).length;
    }
    demand(closed === 2 * rounds, `${closed} of ${2 * rounds} connections were ended by the server`);
    return `${closed} connections ended`;
  },
  async nested_json() {
    const answers = [];
    for (const depth of [17, 1000, 1000000]) {
      for (const [open, shut] of [['[', ']'], ['{"a":', '}']]) {
        const body = open.repeat(depth) + (open === '[' ? '' : '1') + shut.repeat(depth);
        answers.push(await within(post(QUERY, {}, body), 30000, `depth ${depth}`));
      }
    }
    demand(answers.every((code) => code === 400), `HTTP statuses ${answers}`);
    return `${answers.length} times 400`;
  },
  // 256 MiB of zeros in 256 KiB.
  async zip_of_zeros() {
    const zeros = zlib.gzipSync(Buffer.alloc(256 << 20));
    const connection = session();
    const stream = call(connection, 'MemoryService/Insert', { 'grpc-encoding': 'gzip' });
    const code = ended(stream);
    stream.end(message(zeros, 1));
    const answer = await within(code, 30000, 'gRPC');
    connection.destroy();
    demand(answer > 0, `gRPC status ${answer}`);
    const web = await within(post(QUERY, { 'content-encoding': 'gzip' }, zeros), 30000, 'HTTP');
    demand(web === 415 || web === 0, `HTTP status ${web}, not 415`);
    return `gRPC status ${answer}; HTTP ${web}`;
  },
  // Heads and bodies that come a byte a second, on more connections than there may be.
  async slow_writers() {
    const head = `POST ${QUERY} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n`;
    const slow = (text) => text.split('');
    const begin = Date.now();
    const ends = await Promise.all(Array.from({ length: 300 }, (_, i) =>
      shout(web, i % 2 === 0 ? slow(head) : [head + '\r\n', ...slow('{'.repeat(100))], 1000, 90000)));
    const closed = ends.filter(Boolean).length;
    demand(closed === 300, `${closed} of 300 connections were ended by the server`);
    return `300 connections ended within ${Math.round((Date.now() - begin) / 1000)} s`;
  },
};

async function main() {
  let wrong = 0;
  const names = only.length > 0 ? only : Object.keys(abuses);
  for (const name of names) {
    let said;
    try {
      said = await abuses[name]();
      console.log(`${name}=ok`);
    } catch (error) {
      wrong += 1;
      said = '';
      console.log(`${name}=wrong: ${error.message}`);
    }
    await sleep(500);
    console.log(`${name}_said=${said}\n${name}_resident_mib=${status('VmRSS').toFixed(0)}`);
  }
  console.log(`peak_resident_mib=${status('VmHWM').toFixed(0)}`);
  process.exit(wrong === 0 ? 0 : 1);
}
main().catch((error) => {
  console.error(`abuse: ${error.message}`);
  process.exit(1);
});
