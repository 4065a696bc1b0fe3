package app_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/media/har"
)

// replayedPage is a page whose session is recorded and replayed.
type replayedPage struct {
	head, body string // HTML
	script     string // the body of an asynchronous function
	target     string // that the page is redirected to, instead
	lost       string // the rule of what is not replayed
}

// replayedPages are made so that a response that does not come from the recording changes a picture: answers of the site have random
// parts. OTHER is another origin of the site.
var replayedPages = map[string]replayedPage{
	"text":      {body: `<h1>A page</h1>`},
	"styles":    {head: `<link rel=stylesheet href=/imports.css>`, body: `<h1>Colours</h1>`},
	"font":      {head: `<style>@font-face {font-family: served; src: url(/font)} h1 {font-family: served}</style>`, body: `<h1>Letters</h1>`, script: `if ((await document.fonts.load('40px served')).length != 1) throw 'font'`},
	"images":    {body: `<img src=/image.png?1><img src=/image.png?2><img src=/image.svg>`},
	"lazy":      {body: `<div style="height: 8000px"></div><img loading=lazy src=/image.png>`, script: `document.images[0].scrollIntoView(); await document.images[0].decode()`},
	"other":     {body: `<img src="OTHER/image.png?other"><iframe src="OTHER/frame"></iframe>`},
	"redirects": {script: `const r = await fetch('/hop1'); show(r.url + ' ' + r.redirected + ' ' + await r.text())`},
	"moved":     {target: "/hop1?to=/pages/text"},
	"spa": {script: `for (const view of ['a', 'b', 'c']) { history.pushState({}, '', '/spa/' + view); show((await (await fetch('/json?view=' + view)).json()).text) } history.back();
		await new Promise(done => onpopstate = done); show(location.pathname)`},
	"sequence": {script: `for (let i = 0; i < 4; i++) show(await get('/random'))`},
	"variants": {script: `for (const q of ['x=1&y=2', 'y=2&x=1', 'x=1', '']) show(await get('/random?' + q))`},
	"posts":    {script: `for (const user of ['ann', 'bob', 'ann']) show(await get('/form', {method: 'POST', body: new URLSearchParams({user, password: 'secret ' + user})}))`},
	"form": {body: `<form method=post action=/form target=answer><input name=user value=ann></form><iframe name=answer></iframe>`, script: `document.forms[0].submit();
		await new Promise(done => document.querySelector('iframe').onload = done)`},
	"json":     {script: `show(JSON.stringify(await (await fetch('/json', {method: 'PUT', headers: {'Content-Type': 'application/json'}, body: '{"a": 1}'})).json()))`},
	"cors":     {script: `show(await get('OTHER/random', {method: 'DELETE', headers: {'X-Extra': 'yes'}})); await get('OTHER/closed').then(() => { throw 'allowed' }, e => show(e.message))`},
	"statuses": {script: `for (const path of ['/missing', '/empty', '/broken']) { const r = await fetch(path); show(r.status + ' ' + r.statusText + ' ' + r.headers.get('X-Extra') + await r.text()) }`},
	"refused":  {script: `for (const address of ['http://127.0.0.1:1/', 'http://site.invalid/']) show(await get(address).catch(e => e.message))`},
	"modules":  {head: `<script type=module src=/module.js></script>`, script: `while (!globalThis.loaded) await new Promise(done => setTimeout(done, 5)); show(loaded); show((await import('/library.js?late')).text)`},
	"workers":  {script: `show((await new Promise(done => new Worker('/worker.js').onmessage = done)).data); const s = new SharedWorker('/shared.js'); show((await new Promise(done => s.port.onmessage = done)).data)`},
	"service": {script: `await navigator.serviceWorker.register('/service.js'); while (!navigator.serviceWorker.controller) await new Promise(done => setTimeout(done, 5));
		for (const path of ['/cached', '/made', '/passed']) show(await get(path))`},
	"charset": {script: `const f = document.body.appendChild(Object.assign(document.createElement('iframe'), {src: '/latin'})); await new Promise(done => f.onload = done)`},
	"large":   {script: `const text = await get('/large'); show(text.length + text.slice(0, 20)); const data = await (await fetch('/binary')).arrayBuffer(); show(new Uint8Array(await crypto.subtle.digest('SHA-256', data)).join())`},
	"xhr":     {script: `const x = new XMLHttpRequest(); x.open('GET', '/random'); x.send(); await new Promise(done => x.onload = done); show(x.responseText + x.getAllResponseHeaders().replace(/(date|content-length):.*/g, ''))`},
	"huge":    {script: `await get('/huge').then(() => show('huge'), () => show('huge'))`, lost: "incomplete"},
	"socket":  {script: `const s = new WebSocket('ws://' + location.host + '/socket'); await new Promise(done => s.onclose = done); show('closed')`, lost: "connect.allow"},
	"beacon":  {script: `await get('/random?' + performance.timeOrigin).catch(() => {}); show('sent')`, lost: "unrecorded"},
}

const replayedHTML = `<!doctype html><html><head><link rel=icon href="data:,">HEAD</head><body>BODY<script>
const show = text => document.body.append(Object.assign(document.createElement('p'), {textContent: text}));
const get = async (path, options) => (await fetch(path, options)).text();
addEventListener('load', () => (async () => { SCRIPT })().then(() => document.title = 'done', e => document.title = 'failed: ' + e));
</script></body></html>`

// replayedSite serves replayedPages.
type replayedSite struct {
	*httptest.Server
	requests    atomic.Int64
	font, large []byte
}

func newReplayedSite(t *testing.T) *replayedSite {
	t.Helper()
	file, err := exec.CommandContext(t.Context(), "fc-match", "--format", "%{file}", "serif:bold").Output()
	if err != nil {
		t.Fatal(err)
	}
	s := &replayedSite{large: make([]byte, har.MaxBody-100)}
	if s.font, err = os.ReadFile(string(file)); err != nil {
		t.Fatal(err)
	}
	for i := range s.large {
		s.large[i] = byte(rand.Uint32())
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *replayedSite) page(name string) string { return s.URL + "/pages/" + name }

func (s *replayedSite) other() string { return strings.Replace(s.URL, "127.0.0.1", "localhost", 1) }

// ServeHTTP implements http.Handler.
func (s *replayedSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	random, path := fmt.Sprint("random ", rand.Uint64()), strings.TrimPrefix(r.URL.Path, "/")
	serve := func(kind, text string) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, text)
	}
	if page, ok := replayedPages[strings.TrimPrefix(path, "pages/")]; ok && strings.HasPrefix(path, "pages/") {
		if page.target != "" {
			http.Redirect(w, r, page.target, http.StatusSeeOther)
			return
		}
		text := strings.NewReplacer("HEAD", page.head, "BODY", page.body+"<p>"+random, "SCRIPT", page.script, "OTHER", s.other()).Replace(replayedHTML)
		serve("text/html", strings.ReplaceAll(text, "OTHER", s.other()))
		return
	}
	if path != "closed" {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Methods", "*")
		w.Header().Set("Access-Control-Allow-Headers", "*")
	}
	switch path {
	case "imports.css":
		serve("text/css", `@import "/colour.css"; body {background: url(/image.png?background)}`)
	case "colour.css":
		serve("text/css", fmt.Sprintf("h1 {color: #%06x}", rand.IntN(1<<24)))
	case "font":
		serve("font/ttf", string(s.font))
	case "image.png":
		serve("image/png", randomPicture())
	case "image.svg":
		serve("image/svg+xml", fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="50" height="50"><rect width="50" height="50" fill="#%06x"/></svg>`, rand.IntN(1<<24)))
	case "frame":
		serve("text/html", `<p>`+random+`<p id=p><script>fetch('/random').then(r => r.text()).then(text => p.textContent = text)</script>`)
	case "hop1", "hop2", "hop3":
		next := map[string]string{"hop1": s.other() + "/hop2?", "hop2": "/hop3?", "hop3": "/random?"}[path] + r.URL.RawQuery
		if target := r.URL.Query().Get("to"); path == "hop1" && target != "" {
			next = target
		}
		http.Redirect(w, r, next, map[string]int{"hop1": 302, "hop2": 307, "hop3": 301}[path])
	case "random", "cached", "passed", "closed":
		serve("text/plain", random)
	case "json":
		serve("application/json", fmt.Sprintf(`{"text": "%s é 日本"}`, random))
	case "form":
		body, _ := io.ReadAll(r.Body)
		serve("text/html", fmt.Sprintf(`<p>%s %x`, random, body))
	case "missing", "broken":
		w.Header().Set("X-Extra", random)
		w.WriteHeader(map[string]int{"missing": 404, "broken": 503}[path])
		_, _ = io.WriteString(w, random)
	case "empty":
		w.WriteHeader(http.StatusNoContent)
	case "module.js":
		serve("text/javascript", `import {text} from "/library.js"; globalThis.loaded = text`)
	case "library.js":
		serve("text/javascript", `export const text = "`+random+`"`)
	case "worker.js":
		serve("text/javascript", `importScripts("/imported.js"); fetch("/random").then(r => r.text()).then(text => postMessage(imported + text))`)
	case "imported.js":
		serve("text/javascript", `const imported = "`+random+`"`)
	case "shared.js":
		serve("text/javascript", `onconnect = e => fetch("/random?shared").then(r => r.text()).then(text => e.ports[0].postMessage(text))`)
	case "service.js":
		serve("text/javascript", `importScripts("/imported.js"); oninstall = e => { skipWaiting(); e.waitUntil(caches.open("c").then(c => c.add("/cached"))) };
			onactivate = e => e.waitUntil(clients.claim());
			onfetch = e => { const path = new URL(e.request.url).pathname; if (path == "/cached") e.respondWith(caches.match("/cached")); if (path == "/made") e.respondWith(new Response(imported)) }`)
	case "latin":
		serve("text/html; charset=iso-8859-1", "<p>caf\xe9 \xa3 "+random)
	case "large":
		serve("text/plain", fmt.Sprintf("%s %x", random, s.large[:len(s.large)/2-50]))
	case "binary":
		serve("application/octet-stream", string(s.large))
	case "huge":
		serve("text/plain", strings.Repeat("huge", har.MaxBody))
	case "socket":
		if socket, err := ws.Accept(w, r, ws.Options{Origins: []string{"*"}}); err == nil {
			_ = socket.Close(ws.NormalClosure, "")
		}
	default:
		http.NotFound(w, r)
	}
}

// randomPicture returns a picture of a random colour.
func randomPicture() string {
	picture := image.NewRGBA(image.Rect(0, 0, 60, 40))
	draw.Draw(picture, picture.Bounds(), image.NewUniform(color.RGBA{uint8(rand.Uint32()), uint8(rand.Uint32()), uint8(rand.Uint32()), 255}), image.Point{}, draw.Src)
	var raw bytes.Buffer
	_ = png.Encode(&raw, picture) // a buffer cannot fail
	return raw.String()
}
