package browser_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
)

// escape tries to reach a denied URL. It fails the test only if it cannot be tried.
type escape func(t *testing.T, w *wall, denied string)

// inPage evaluates a script in a page of an allowed host. %[1]q is the denied URL.
func inPage(script string) escape {
	return func(t *testing.T, w *wall, denied string) {
		w.run(t, w.page(t), "globalThis.denied = "+quoted(denied)+"; "+script)
	}
}

func quoted(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw)
}

// onServer opens a path of an allowed host, which leads to the denied URL.
func onServer(path string) escape {
	return func(t *testing.T, w *wall, denied string) {
		w.navigate(t, w.page(t), w.url("www.allowed", path+"?to="+denied))
	}
}

// workerAt returns the URL of a script of an allowed host that requests the denied URL.
const workerAt = `"/worker.js?to=" + encodeURIComponent(denied)`

// serviceWorker registers one and then opens a path of it.
func serviceWorker(path string) escape {
	return func(t *testing.T, w *wall, denied string) {
		session := w.page(t)
		w.eval(t, session, fmt.Sprintf(`navigator.serviceWorker.register("/service.js?to=" + encodeURIComponent(%q)).then(r => new Promise(done => {
			if (navigator.serviceWorker.controller) done(); else navigator.serviceWorker.oncontrollerchange = () => done() })).then(() => true)`, denied), nil)
		w.navigate(t, session, w.url("www.allowed", path))
	}
}

// documentEscapes open a denied document.
var documentEscapes = map[string]escape{
	"page-navigate": func(t *testing.T, w *wall, denied string) {
		if text := w.navigate(t, w.page(t), denied); text != "net::ERR_BLOCKED_BY_CLIENT" {
			t.Errorf("the error is %q", text)
		}
	},
	"create-target": func(t *testing.T, w *wall, denied string) { w.open(t, denied) },
	"create-target-in-context": func(t *testing.T, w *wall, denied string) {
		w.call(t, "", "Target.createTarget", map[string]any{"url": denied, "browserContextId": w.createContext(t, nil)})
	},
	"create-target-window": func(t *testing.T, w *wall, denied string) {
		w.call(t, "", "Target.createTarget", map[string]any{"url": denied, "newWindow": true})
	},
	"context-proxy": func(t *testing.T, w *wall, denied string) {
		id := w.createContext(t, map[string]any{"proxyServer": "http://127.0.0.1" + w.port})
		w.call(t, "", "Target.createTarget", map[string]any{"url": denied, "browserContextId": id})
	},
	"json-new":             func(t *testing.T, w *wall, denied string) { w.jsonNew(t, denied) },
	"location":             inPage(`location = denied`),
	"location-assign":      inPage(`location.assign(denied)`),
	"location-replace":     inPage(`location.replace(denied)`),
	"navigation-api":       inPage(`navigation.navigate(denied)`),
	"window-open":          inPage(`open(denied)`),
	"window-open-noopener": inPage(`open(denied, "_blank", "noopener")`),
	"window-open-popup":    inPage(`open(denied, "", "popup,width=200,height=200")`),
	"window-open-late":     inPage(`const w = open("about:blank"); setTimeout(() => { w.location = denied }, 50)`),
	"closing-page":         inPage(`open(denied); close()`),
	"leaving-page":         inPage(`open(denied); location = "/next"`),
	"javascript-url":       inPage(`location = "javascript:location=" + JSON.stringify(denied)`),
	"frame":                inPage(`document.body.append(Object.assign(document.createElement("iframe"), {src: denied}))`),
	"frame-sandboxed":      inPage(`document.body.append(Object.assign(document.createElement("iframe"), {sandbox: "allow-scripts", src: denied}))`),
	"frame-srcdoc":         inPage(`document.body.append(Object.assign(document.createElement("iframe"), {srcdoc: '<iframe src="' + denied + '"></iframe>'}))`),
	"frame-data":           inPage(`document.body.append(Object.assign(document.createElement("iframe"), {src: 'data:text/html,<iframe src="' + denied + '"></iframe>'}))`),
	"frame-blob":           inPage(`document.body.append(Object.assign(document.createElement("iframe"), {src: URL.createObjectURL(new Blob(['<iframe src="' + denied + '"></iframe>'], {type: "text/html"}))}))`),
	"frame-top":            inPage(`document.body.append(Object.assign(document.createElement("iframe"), {srcdoc: "<script>top.location=" + JSON.stringify(denied) + "</" + "script>"}))`),
	"frameset":             inPage(`document.write('<frameset><frame src="' + denied + '"></frameset>'); document.close()`),
	"object":               inPage(`document.body.append(Object.assign(document.createElement("object"), {type: "text/html", data: denied}))`),
	"embed":                inPage(`document.body.append(Object.assign(document.createElement("embed"), {type: "text/html", src: denied}))`),
	"base-and-link":        inPage(`document.head.append(Object.assign(document.createElement("base"), {href: denied})); document.body.append(Object.assign(document.createElement("a"), {href: "x"})); document.querySelector("a").click()`),
	"link":                 inPage(`Object.assign(document.createElement("a"), {href: denied}).click()`),
	"link-blank":           inPage(`Object.assign(document.createElement("a"), {href: denied, target: "_blank"}).click()`),
	"link-download":        inPage(`Object.assign(document.createElement("a"), {href: denied, download: "x"}).click()`),
	"form-get":             inPage(`const f = Object.assign(document.createElement("form"), {action: denied}); document.body.append(f); f.submit()`),
	"form-post":            inPage(`const f = Object.assign(document.createElement("form"), {method: "post", action: denied}); document.body.append(f); f.submit()`),
	"form-post-blank":      inPage(`const f = Object.assign(document.createElement("form"), {method: "post", action: denied, target: "_blank"}); document.body.append(f); f.submit()`),
	"redirect":             onServer("/redirect"),
	"redirect-307":         onServer("/temporary"),
	"refresh-header":       onServer("/refresh"),
	"refresh-meta":         onServer("/meta"),
	"redirect-chain": func(t *testing.T, w *wall, denied string) {
		for range 5 {
			denied = w.url("www.allowed", "/redirect?to="+strings.NewReplacer("&", "%26", "?", "%3F", "%", "%25").Replace(denied))
		}
		w.navigate(t, w.page(t), denied)
	},
	"redirect-of-form": inPage(`const f = Object.assign(document.createElement("form"), {method: "post", action: "/temporary?to=" + encodeURIComponent(denied)}); document.body.append(f); f.submit()`),
	"detached-session": func(t *testing.T, w *wall, denied string) {
		session := w.page(t)
		reply, err := w.Send(t.Context(), session, "Page.navigate", map[string]any{"url": denied})
		if err != nil {
			t.Fatal(err)
		}
		reply.Discard()
		w.call(t, "", "Target.detachFromTarget", map[string]any{"sessionId": session})
	},
	"bypass-service-worker": func(t *testing.T, w *wall, denied string) {
		session := w.page(t)
		w.call(t, session, "Network.enable", nil)
		w.call(t, session, "Network.setBypassServiceWorker", map[string]any{"bypass": true})
		w.navigate(t, session, denied)
	},
	"disabled-fetch": func(t *testing.T, w *wall, denied string) {
		session := w.page(t)
		for _, s := range []string{"", session} {
			w.call(t, s, "Fetch.disable", nil)
		}
		w.navigate(t, session, denied)
	},
	"waiting-popup": func(t *testing.T, w *wall, denied string) {
		w.call(t, "", "Target.setAutoAttach", map[string]any{"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true})
		defer w.call(t, "", "Target.setAutoAttach", map[string]any{"autoAttach": false, "waitForDebuggerOnStart": false, "flatten": true})
		attached := w.Subscribe(10, "Target.attachedToTarget")
		defer attached.Close()
		var target struct{ TargetID string }
		unmarshal(t, w.call(t, "", "Target.createTarget", map[string]any{"url": denied}), &target)
	},
	"nested-session": func(t *testing.T, w *wall, denied string) {
		var attached struct{ SessionID string }
		unmarshal(t, w.call(t, "", "Target.attachToTarget", map[string]any{"targetId": w.first, "flatten": false}), &attached)
		w.call(t, "", "Target.sendMessageToTarget", map[string]any{"sessionId": attached.SessionID,
			"message": `{"id":1,"method":"Page.navigate","params":{"url":` + quoted(denied) + `}}`})
	},
	"exposed-protocol": func(t *testing.T, w *wall, denied string) {
		w.expose(t).send(t, "Target.createTarget", map[string]any{"url": denied})
	},
	"script-of-new-document": func(t *testing.T, w *wall, denied string) {
		session := w.page(t)
		w.call(t, session, "Page.enable", nil)
		w.call(t, session, "Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": "location = " + quoted(denied)})
		w.navigate(t, session, w.url("www.allowed", "/again"))
	},
	"prerender": speculation("prerender"),
	"user-agent-override": func(t *testing.T, w *wall, denied string) {
		session := w.page(t)
		w.call(t, session, "Network.enable", nil)
		w.call(t, session, "Network.setExtraHTTPHeaders", map[string]any{"headers": map[string]string{"Host": "www.allowed.localhost" + w.port}})
		w.navigate(t, session, denied)
	},
	"userinfo": func(t *testing.T, w *wall, denied string) {
		w.navigate(t, w.page(t), strings.Replace(denied, "http://", "http://www.allowed.localhost@", 1))
	},
	"trailing-dot": func(t *testing.T, w *wall, denied string) {
		w.navigate(t, w.page(t), strings.Replace(denied, ".localhost", ".LOCALHOST", 1))
	},
}

// speculation loads the denied URL before it is needed, and then opens it.
func speculation(kind string) escape {
	return inPage(fmt.Sprintf(`document.head.append(Object.assign(document.createElement("script"), {type: "speculationrules",
		textContent: JSON.stringify({%s: [{source: "list", urls: [denied], eagerness: "immediate"}]})}));
		setTimeout(() => { location = denied }, 300)`, kind))
}

// createContext creates a browser context.
func (w *wall) createContext(t *testing.T, params map[string]any) (id string) {
	t.Helper()
	var created struct{ BrowserContextID string }
	unmarshal(t, w.call(t, "", "Target.createBrowserContext", params), &created)
	return created.BrowserContextID
}

// jsonNew opens a page with the HTTP API of the debugging port and returns the status.
func (w *wall) jsonNew(t *testing.T, address string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, fmt.Sprintf("http://127.0.0.1:%d/json/new?%s", w.DebugPort, address), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// continueAs intercepts the next request of a session, or of the browser, and continues it with another URL.
func (w *wall) continueAs(t *testing.T, session, address string) error {
	t.Helper()
	paused := w.Subscribe(10, "Fetch.requestPaused")
	defer paused.Close()
	w.call(t, session, "Fetch.enable", map[string]any{"patterns": []any{map[string]any{"urlPattern": "*intercepted*"}}})
	defer w.call(t, session, "Fetch.disable", nil)
	reply, err := w.Send(t.Context(), "", "Target.createTarget", map[string]any{"url": w.url("www.allowed", "/intercepted")})
	if session != "" {
		reply.Discard()
		reply, err = w.Send(t.Context(), session, "Page.navigate", map[string]any{"url": w.url("www.allowed", "/intercepted")})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Discard()
	select {
	case e := <-paused.Events():
		var request struct{ RequestID string }
		unmarshal(t, e.Params, &request)
		return w.Call(t.Context(), e.SessionID, "Fetch.continueRequest", map[string]any{"requestId": request.RequestID, "url": address}, nil)
	case <-time.After(10 * time.Second):
		t.Fatal("no request was intercepted")
		return nil
	}
}

func TestGuard_DeniesDocuments(t *testing.T) {
	w := newWall(t, &netrules.Rules{Navigate: &netrules.Filter{Allow: []string{allowedHosts}, Deny: []string{"denied.allowed.localhost"}}}, nil)
	w.try(t, documentEscapes)
}

// try tries escapes one after another.
func (w *wall) try(t *testing.T, escapes map[string]escape) {
	t.Helper()
	for name, attempt := range escapes {
		t.Run(name, func(t *testing.T) {
			defer w.closePages(t)
			attempt(t, w, w.url(name, "/"))
			w.awaitDenied(t, name)
		})
	}
	if hits := w.requested(); len(hits) > 0 {
		t.Errorf("%d requests were not denied: %v", len(hits), hits)
	}
}

// connectionEscapes request a denied URL in any way.
var connectionEscapes = map[string]escape{
	"fetch":             inPage(`fetch(denied).catch(() => {})`),
	"fetch-no-cors":     inPage(`fetch(denied, {mode: "no-cors"}).catch(() => {})`),
	"fetch-post":        inPage(`fetch(denied, {method: "POST", body: "x", mode: "no-cors"}).catch(() => {})`),
	"fetch-keepalive":   inPage(`fetch(denied, {keepalive: true, mode: "no-cors"}).catch(() => {}); location = "/next"`),
	"xhr":               inPage(`const x = new XMLHttpRequest(); x.open("GET", denied); x.send()`),
	"beacon":            inPage(`navigator.sendBeacon(denied, "x")`),
	"image":             inPage(`new Image().src = denied`),
	"script":            inPage(`document.head.append(Object.assign(document.createElement("script"), {src: denied}))`),
	"module":            inPage(`import(denied).catch(() => {})`),
	"style":             inPage(`document.head.append(Object.assign(document.createElement("link"), {rel: "stylesheet", href: denied}))`),
	"font":              inPage(`new FontFace("f", "url(" + denied + ")").load().catch(() => {})`),
	"media":             inPage(`document.body.append(Object.assign(document.createElement("video"), {src: denied, preload: "auto"}))`),
	"track-of-manifest": inPage(`document.head.append(Object.assign(document.createElement("link"), {rel: "prefetch", href: denied}))`),
	"preload":           inPage(`document.head.append(Object.assign(document.createElement("link"), {rel: "preload", as: "image", href: denied}))`),
	"event-source":      inPage(`new EventSource(denied)`),
	"web-socket":        inPage(`new WebSocket(denied.replace("http", "ws"))`),
	"worker":            inPage(`new Worker(` + workerAt + `)`),
	"shared-worker":     inPage(`new SharedWorker(` + workerAt + `)`),
	"blob-worker":       inPage(`new Worker(URL.createObjectURL(new Blob(["fetch(" + JSON.stringify(denied) + ", {mode: 'no-cors'})"])))`),
	"import-scripts":    inPage(`new Worker(URL.createObjectURL(new Blob(["importScripts(" + JSON.stringify(denied) + ")"])))`),
	"service-worker":    serviceWorker("/pass"),
	"frame":             documentEscapes["frame"],
	"location":          documentEscapes["location"],
	"redirect":          onServer("/redirect"),
	"fetch-redirect":    inPage(`fetch("/redirect?to=" + encodeURIComponent(denied), {mode: "no-cors"}).catch(() => {})`),
	"csp-report":        onServer("/report"),
	"prefetch":          speculation("prefetch"),
	"style-import":      inPage(`document.head.append(Object.assign(document.createElement("style"), {textContent: "@import url(" + denied + ")"}))`),
	"svg-use":           inPage(`document.body.innerHTML = '<svg><image href="' + denied + '"/></svg>'`),
	"create-target":     documentEscapes["create-target"],
	"continue-request": func(t *testing.T, w *wall, denied string) {
		if err := w.continueAs(t, w.page(t), denied); err != nil {
			t.Error(err)
		}
	},
	"continue-request-of-browser": func(t *testing.T, w *wall, denied string) {
		if err := w.continueAs(t, "", denied); err != nil {
			t.Error(err)
		}
	},
	"load-resource": func(t *testing.T, w *wall, denied string) {
		var tree struct {
			FrameTree struct{ Frame struct{ ID string } }
		}
		session := w.page(t)
		unmarshal(t, w.call(t, session, "Page.getFrameTree", nil), &tree)
		w.call(t, session, "Network.loadNetworkResource", map[string]any{"frameId": tree.FrameTree.Frame.ID, "url": denied, "options": map[string]any{"disableCache": true, "includeCredentials": false}})
	},
	"context-without-proxy": func(t *testing.T, w *wall, denied string) {
		id := w.createContext(t, map[string]any{"proxyServer": "direct://", "proxyBypassList": "*"})
		w.call(t, "", "Target.createTarget", map[string]any{"url": denied, "browserContextId": id})
	},
	"host-header": func(t *testing.T, w *wall, denied string) {
		session := w.page(t)
		w.call(t, session, "Fetch.enable", map[string]any{"patterns": []any{map[string]any{"urlPattern": "*"}}})
		w.run(t, session, "fetch("+quoted(denied)+").catch(() => {})")
		w.call(t, session, "Fetch.disable", nil)
	},
}

func TestGuard_DeniesConnections(t *testing.T) {
	w := newWall(t, &netrules.Rules{Connect: &netrules.Filter{Allow: []string{allowedHosts}}}, nil)
	w.try(t, connectionEscapes)
	for _, server := range []string{"http://127.0.0.1" + w.port, "socks5://127.1" + w.port, "http://[::1]" + w.port} {
		err := w.Call(t.Context(), "", "Target.createBrowserContext", map[string]any{"proxyServer": server}, nil)
		if err == nil || !strings.Contains(err.Error(), "the rule connect.allow of the launch") {
			t.Errorf("a denied host as the proxy of a context: %v", err)
		}
	}
}

// refusedCalls are calls that rules refuse, with the address in place of %s.
var refusedCalls = []struct{ method, params string }{
	{"Page.navigate", `{"url":"%s"}`},
	{"Page.navigate", `{"url":"https://www.allowed.localhost/","url":"%s"}`},
	{"Target.createTarget", `{"url":"%s"}`},
	{"Target.sendMessageToTarget", `{"sessionId":"x","message":"{\"id\":1,\"method\":\"Page.navigate\",\"params\":{\"url\":\"%s\"}}"}`},
	{"Fetch.continueRequest", `{"requestId":"x","url":"%s"}`},
}

// deniedAddresses are not requested from a server, or not as they are written.
var deniedAddresses = []string{
	"data:text/html,x", "DATA:text/html,x", " data:text/html,x", "\tda\nta:text/html,x", "javascript:alert(1)", "blob:http://www.allowed.localhost/1",
	"file:///etc/passwd", "filesystem:http://www.allowed.localhost/temporary/x", "chrome://version", "chrome://settings", "chrome:version",
	"about:version", "about:blankx", "chrome-untrusted://new-tab-page", "chrome-extension://x/", "devtools://devtools/bundled/inspector.html",
	"view-source:http://www.allowed.localhost/", "ftp://www.allowed.localhost/", "isolated-app://x/", "mailto:a@b", "intent://x",
	"ws://www.allowed.localhost/", `http:\\denied.localhost`, " \tht\ntp://denied.localhost/",
}

func TestGuard_RefusesCalls(t *testing.T) {
	w := newWall(t, &netrules.Rules{Navigate: &netrules.Filter{Allow: []string{allowedHosts}}}, nil)
	session := w.page(t)
	for _, c := range refusedCalls {
		for _, address := range deniedAddresses {
			text := strings.Trim(quoted(address), `"`)
			if c.method == "Target.sendMessageToTarget" {
				text = strings.Trim(quoted(text), `"`)
			}
			err := w.Call(t.Context(), session, c.method, json.RawMessage(strings.ReplaceAll(c.params, "%s", text)), nil)
			if err == nil || !strings.Contains(err.Error(), "is denied by the rule navigate.allow of the launch") {
				t.Errorf("%s %s %q: %v", c.method, c.params, address, err)
			}
		}
	}
	if err := w.Call(t.Context(), session, "Page.navigate", map[string]any{"padding": strings.Repeat("x", 2<<20), "url": "data:text/html,x"}, nil); err == nil {
		t.Error("a long message is not examined")
	}
	var length int
	if w.eval(t, session, quoted(strings.Repeat("x", 2<<20))+".length", &length); length != 2<<20 {
		t.Errorf("a long message that is allowed: %d", length)
	}
	for _, address := range []string{"data:text/html,x", "%64ata:text/html,x", "chrome://version", "view-source:http://www.allowed.localhost/"} {
		if status := w.jsonNew(t, address); status != http.StatusForbidden {
			t.Errorf("/json/new?%s: %d", address, status)
		}
	}
	if status := w.jsonNew(t, w.url("www.allowed", "/")); status != http.StatusOK {
		t.Errorf("/json/new for an allowed page: %d", status)
	}
	if text := w.navigate(t, session, w.url("www.allowed", "/after")); text != "" {
		t.Errorf("an allowed document: %q", text)
	}
}

// shownEscape shows a document whose URL starts with the address.
type shownEscape struct {
	address string
	attempt escape
}

// shownEscapes show documents that no request precedes, in a way that the worker sees only afterwards.
var shownEscapes = map[string]shownEscape{
	"blob":           {"blob:", inPage(`open(URL.createObjectURL(new Blob(["x"], {type: "text/html"})))`)},
	"typed-data":     {"data:text/html,x", openPastRelay},
	"typed-chrome":   {"chrome://version/", openPastRelay},
	"typed-devtools": {"devtools://devtools/bundled/inspector.html", openPastRelay},
	"typed-source": {"view-source:", func(t *testing.T, w *wall, source string) {
		openPastRelay(t, w, source+w.url("www.allowed", "/"))
	}},
}

// openPastRelay opens a page as a person does, whose input is not intercepted.
func openPastRelay(t *testing.T, w *wall, address string) {
	if err := w.CDP().Call(t.Context(), "", "Target.createTarget", map[string]any{"url": address}, nil); err != nil {
		t.Fatal(err)
	}
}

func TestGuard_ReplacesShownDocuments(t *testing.T) {
	w := newWall(t, &netrules.Rules{Navigate: &netrules.Filter{Allow: []string{allowedHosts}}}, nil)
	w.tryShown(t, shownEscapes)
}

// tryShown tries escapes one after another, each of which shows a document.
func (w *wall) tryShown(t *testing.T, escapes map[string]shownEscape) {
	t.Helper()
	for name, c := range escapes {
		t.Run(name, func(t *testing.T) {
			defer w.closePages(t)
			before := strings.Count(w.log.String(), "page denied by rule")
			c.attempt(t, w, c.address)
			eventually(t, 10*time.Second, "denied: "+c.address, func() bool { return strings.Count(w.log.String(), "page denied by rule") > before })
			eventually(t, 10*time.Second, "blank: "+c.address, func() bool {
				return !slices.ContainsFunc(w.targets(t), func(info targetInfo) bool {
					return info.Type == "page" && strings.HasPrefix(info.URL, c.address)
				})
			})
		})
	}
}
