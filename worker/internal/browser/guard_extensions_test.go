package browser_test

import (
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/browser"
)

// wallExtension is the manifest of an extension that may access and redirect the requests of all sites.
const wallExtension = `{
	"manifest_version": 3, "name": "wall", "version": "1", "default_locale": "en", "background": {"service_worker": "worker.js"},
	"permissions": ["declarativeNetRequest"], "host_permissions": ["<all_urls>"],
	"content_scripts": [{"matches": ["http://*/*"], "js": ["scripts/content.js"]}]
}`

func withExtension(t *testing.T) func(*browser.Spec) {
	return func(s *browser.Spec) { s.Extensions = []browser.Extension{writeExtension(t, wallExtension)} }
}

// inExtension evaluates a script in the service worker of the extension.
func inExtension(script string) escape {
	return func(t *testing.T, w *wall, denied string) {
		w.openLoaded(t, w.url("www.allowed", "/")+"#data:,x") // the content script wakes the service worker
		var session string
		eventually(t, 15*time.Second, "the service worker", func() bool {
			for _, target := range w.targets(t) {
				if target.Type == "service_worker" && target.URL == "chrome-extension://"+testExtensionID+"/worker.js" {
					session = w.attach(t, target.TargetID)
				}
			}
			return session != ""
		})
		w.run(t, session, "globalThis.denied = "+quoted(denied)+"; globalThis.allowed = "+quoted(w.url("www.allowed", "/redirected"))+"; "+script)
		w.call(t, "", "Target.detachFromTarget", map[string]any{"sessionId": session})
	}
}

// redirectTo makes the extension redirect the requests of a kind to the denied URL.
func redirectTo(kinds, then string) escape {
	return inExtension(`chrome.declarativeNetRequest.updateSessionRules({removeRuleIds: [1], addRules: [{id: 1, priority: 1,
		action: {type: "redirect", redirect: {url: denied}}, condition: {urlFilter: "/redirected", resourceTypes: ` + kinds + `}}]}).then(() => ` + then + `)`)
}

// extensionDocuments have an extension open a denied document.
var extensionDocuments = map[string]escape{
	"tabs-create":    inExtension(`chrome.tabs.create({url: denied})`),
	"tabs-update":    inExtension(`chrome.tabs.create({url: allowed}).then(tab => chrome.tabs.update(tab.id, {url: denied}))`),
	"windows-create": inExtension(`chrome.windows.create({url: denied})`),
	"redirect":       redirectTo(`["main_frame"]`, `chrome.tabs.create({url: allowed})`),
}

// extensionConnections have an extension request a denied URL, from its service worker and from its page.
var extensionConnections = map[string]escape{
	"worker-fetch":      inExtension(`fetch(denied).catch(() => {})`),
	"worker-post":       inExtension(`fetch(denied, {method: "POST", body: "x", mode: "no-cors"}).catch(() => {})`),
	"worker-web-socket": inExtension(`new WebSocket(denied.replace("http", "ws"))`),
	"worker-tab":        extensionDocuments["tabs-create"],
	"worker-redirect":   redirectTo(`["main_frame"]`, `chrome.tabs.create({url: allowed})`),
	"redirect-of-fetch": redirectTo(`["xmlhttprequest"]`, `fetch(allowed, {mode: "no-cors"}).catch(() => {})`),
	"message-of-page": func(t *testing.T, w *wall, denied string) {
		w.openLoaded(t, w.url("www.allowed", "/")+"#"+denied)
	},
	"page-fetch": func(t *testing.T, w *wall, denied string) {
		w.run(t, w.openLoaded(t, "chrome-extension://"+testExtensionID+"/action.html"), "fetch("+quoted(denied)+").catch(() => {})")
	},
	"page-image": func(t *testing.T, w *wall, denied string) {
		w.run(t, w.openLoaded(t, "chrome-extension://"+testExtensionID+"/action.html"), "new Image().src = "+quoted(denied))
	},
	"page-frame": func(t *testing.T, w *wall, denied string) {
		w.run(t, w.openLoaded(t, "chrome-extension://"+testExtensionID+"/action.html"),
			"document.body.append(Object.assign(document.createElement('iframe'), {src: "+quoted(denied)+"}))")
	},
}

func TestGuard_DeniesDocumentsOfExtensions(t *testing.T) {
	w := newWall(t, &netrules.Rules{Navigate: &netrules.Filter{Allow: []string{allowedHosts}}}, withExtension(t))
	w.try(t, extensionDocuments)
}

func TestGuard_DeniesConnectionsOfExtensions(t *testing.T) {
	w := newWall(t, &netrules.Rules{Connect: &netrules.Filter{Allow: []string{allowedHosts}}}, withExtension(t))
	w.try(t, extensionConnections)
}
