// receiver.js stands for a controller: an HTTPS server on loopback that keeps every callback it is
// sent.
//
//     node receiver.js KEY CERTIFICATE FOLDER
//
// Writes its port to FOLDER/port, and the N-th callback to FOLDER/N.body (the bytes as they came)
// and FOLDER/N.headers (a line a header, names in lower case). Ends with the signal that it is
// sent.
'use strict';
const fs = require('fs');
const https = require('https');
const path = require('path');

if (process.argv.length !== 5) {
  console.error('usage: node receiver.js KEY CERTIFICATE FOLDER');
  process.exit(2);
}
const [key, certificate, folder] = process.argv.slice(2);
let count = 0;
const server = https.createServer(
  { key: fs.readFileSync(key), cert: fs.readFileSync(certificate) },
  (request, response) => {
    const pieces = [];
    request.on('data', (piece) => pieces.push(piece));
    request.on('end', () => {
      count += 1;
      const file = path.join(folder, String(count));
      const headers = Object.entries(request.headers).map(([name, value]) => `${name}: ${value}\n`);
      fs.writeFileSync(`${file}.headers`, headers.join(''));
      fs.writeFileSync(`${file}.body.part`, Buffer.concat(pieces));
      fs.renameSync(`${file}.body.part`, `${file}.body`);
      response.writeHead(202).end();
    });
  });
server.listen(0, '127.0.0.1', () => {
  fs.writeFileSync(path.join(folder, 'port.part'), String(server.address().port));
  fs.renameSync(path.join(folder, 'port.part'), path.join(folder, 'port'));
});
