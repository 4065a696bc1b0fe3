// node server.mjs PORT serves the site of the suite.
import { createServer } from 'node:http';

const html = (title, body) => `<!doctype html><html lang=en><title>${title}</title><meta name=viewport content="width=device-width">${body}`;
const pages = {
  '/': html('Shop', `<h1>Shop</h1><nav><a href=/form>Form</a> <a id=popup target=_blank rel=opener href=/popup>Help</a></nav>
    <ul>${['Apple', 'Pear', 'Plum'].map((name) => `<li><b>${name}</b> <button onclick="add('${name}')">Add</button></li>`).join('')}</ul>
    <p id=cart role=status>Empty</p>
    <script>let n = 0; function add(name) { setTimeout(() => { cart.textContent = ++n + ' in the cart, last ' + name; }, 50); }</script>`),
  '/popup': html('Help', '<h1>Help</h1><button onclick="opener.cart.textContent = \'helped\'; window.close()">Close</button>'),
  '/form': html('Form', `<form><label>Name <input id=name autofocus></label><label><input type=checkbox> Agree</label>
    <label>Size <select><option>S<option>M<option>L</select></label><button disabled>Send</button></form>
    <script>document.querySelector('[type=checkbox]').onchange = (e) => setTimeout(() => { document.querySelector('button').disabled = !e.target.checked; }, 50);</script>`),
  '/frames': html('Frames', '<iframe name=outer srcdoc="<iframe name=inner src=/form></iframe>"></iframe>'),
  '/dialogs': html('Dialogs', `<button onclick="out.textContent = [confirm('Sure?'), prompt('Who?')].join()">Ask</button><p id=out></p>`),
  '/drag': html('Drag', `<div id=box draggable=true style="width:50px;height:50px;background:#c00">box</div>
    <div id=place style="width:200px;height:200px;margin:50px;background:#ddd">place</div>
    <script>place.ondragover = (e) => e.preventDefault(); place.ondrop = () => { place.textContent = 'dropped'; };</script>`),
  '/upload': html('Upload', '<form method=post enctype=multipart/form-data><input type=file name=files multiple><input type=file name=tree webkitdirectory><button>Send</button></form>'),
  '/files': html('Files', '<a href=/report.csv>Report</a> <a href=/endless>Endless</a>'),
  '/touch': html('Touch', `<button ontouchstart="out.textContent = 'touched'">Tap</button><p id=out></p>`),
  '/login': html('Sign in', '<form method=post><label>User <input name=user></label><button>Sign in</button></form>'),
};

const signedIn = (request) => /session=(\w+)/.exec(request.headers.cookie ?? '')?.[1];

async function answer(request, response) {
  const { pathname } = new URL(request.url, 'http://localhost');
  const send = (status, text, headers = {}) => response.writeHead(status, { 'Content-Type': 'text/html; charset=utf-8', ...headers }).end(text);
  let body = '';
  for await (const chunk of request.setEncoding('latin1')) body += chunk;
  if (request.method === 'POST' && pathname === '/login') {
    return send(303, '', { Location: '/account', 'Set-Cookie': `session=${new URLSearchParams(body).get('user')}; Path=/; HttpOnly` });
  }
  if (request.method === 'POST' && pathname === '/upload') {
    const files = [...body.matchAll(/filename="([^"]+)"[^]*?\r\n\r\n([^]*?)\r\n--/g)];
    return send(200, html('Uploaded', `<pre>${files.map(([, name, content]) => `${name} ${content.length}`).join('\n')}</pre>`));
  }
  switch (pathname) {
    case '/account': return signedIn(request) ? send(200, html('Account', `<h1>Hello ${signedIn(request)}</h1>`)) : send(401, html('Sign in first', ''));
    case '/headers': return send(200, JSON.stringify(request.headers), { 'Content-Type': 'application/json' });
    case '/report.csv': return send(200, 'name,count\nApple,1\n', { 'Content-Disposition': 'attachment; filename=report.csv' });
    case '/endless': return response.writeHead(200, { 'Content-Disposition': 'attachment; filename=endless.bin' }).write('x'.repeat(1 << 16));
    case '/protected':
      if (request.headers.authorization === `Basic ${btoa('ada:secret')}`) return send(200, html('Protected', ''));
      return send(401, '', { 'WWW-Authenticate': 'Basic realm=suite' });
    default: return pages[pathname] ? send(200, pages[pathname]) : send(404, html('Not found', ''));
  }
}

createServer((request, response) => answer(request, response).catch(() => response.destroy())).listen(Number(process.argv[2]), 'localhost');
