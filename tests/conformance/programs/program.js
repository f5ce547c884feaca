// SPDX-License-Identifier: Apache-2.0
const { Worker, isMainThread, parentPort } = require('worker_threads');
const { execFileSync, spawn } = require('child_process');
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const os = require('os');
const zlib = require('zlib');

if (!isMainThread) {
  parentPort.postMessage(7);
} else {
  (async () => {
    const worker = await new Promise((resolve, reject) => {
      const one = new Worker(__filename);
      one.on('message', resolve);
      one.on('error', reject);
    });
    const server = http.createServer((request, response) => response.end(request.url));
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const answer = await new Promise((resolve, reject) => {
      http.get({ port: server.address().port, path: '/path' }, (response) => {
        let text = '';
        response.on('data', (data) => { text += data; });
        response.on('end', () => resolve(text));
      }).on('error', reject);
    });
    server.close();
    fs.writeFileSync('file', 'x'.repeat(100000));
    const size = (await fs.promises.stat('file')).size;
    const packed = zlib.gunzipSync(zlib.gzipSync(fs.readFileSync('file'))).length;
    const child = execFileSync('/bin/echo', ['hi']).toString().trim();
    const code = await new Promise((resolve) => spawn('sh', ['-c', 'exit 3']).on('exit', resolve));
    const key = await new Promise((resolve, reject) => crypto.pbkdf2('a', 'b', 1000, 16, 'sha256',
      (error, bytes) => (error ? reject(error) : resolve(bytes.length))));
    if (os.cpus === undefined || os.tmpdir() !== '/tmp') throw new Error('os');
    console.log(worker, answer, size, packed, child, code, key);
  })();
}
