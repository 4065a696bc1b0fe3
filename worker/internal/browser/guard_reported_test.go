package browser_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/netrules"
)

// embedded is an HTML document, as a JavaScript expression, with an element that loads the denied URL.
const embedded = `'<body><img src="' + denied + '"></body>'`

// scripted is an HTML document, as a JavaScript expression, with a script that loads the denied URL.
const scripted = `'<script>fetch(' + JSON.stringify(denied) + ', {mode: "no-cors"})</' + 'script>'`

// frameOf shows a frame with a URL, which is a JavaScript expression, in a page of an allowed host.
func frameOf(address string) escape {
	return inPage(`document.body.append(Object.assign(document.createElement("iframe"), {src: ` + address + `}))`)
}

// blobOf is the URL, as a JavaScript expression, of an HTML document that is a JavaScript expression.
func blobOf(document string) string {
	return `URL.createObjectURL(new Blob([` + document + `], {type: "text/html"}))`
}

// withUserinfo opens the denied URL with a name of an allowed host before the @.
func withUserinfo(userinfo string) escape {
	return func(t *testing.T, w *wall, denied string) {
		w.navigate(t, w.page(t), strings.Replace(denied, "http://", "http://"+userinfo+"@", 1))
	}
}

// reportedEscapes have passed the lists of allowed hosts of other products: requests of pages, ways from an allowed to a
// denied host, and documents of other schemes.
var reportedEscapes = map[string]escape{
	"fetch":             connectionEscapes["fetch"],
	"xhr":               connectionEscapes["xhr"],
	"web-socket":        connectionEscapes["web-socket"],
	"event-source":      connectionEscapes["event-source"],
	"beacon":            connectionEscapes["beacon"],
	"service-worker":    connectionEscapes["service-worker"],
	"new-tab":           documentEscapes["create-target"],
	"host-as-user":      withUserinfo("www.allowed.localhost"),
	"host-and-password": withUserinfo("www.allowed.localhost:password"),
	"host-and-space":    withUserinfo("www.allowed.localhost%20"),
	"host-and-colon":    withUserinfo("www.allowed.localhost%3A"),

	"redirect-to-refresh": func(t *testing.T, w *wall, denied string) {
		refresh := w.url("www.allowed", "/meta?to="+url.QueryEscape(denied))
		w.navigate(t, w.page(t), w.url("www.allowed", "/redirect?to="+url.QueryEscape(refresh)))
	},
	"redirect-in-frame": frameOf(`"/redirect?to=" + encodeURIComponent(denied)`),
	"refresh-in-frame":  frameOf(`"/meta?to=" + encodeURIComponent(denied)`),
	"closing-redirect":  inPage(`open("/redirect?to=" + encodeURIComponent(denied)); close()`),
	"closing-refresh":   inPage(`open("/meta?to=" + encodeURIComponent(denied)); close()`),
	"closing-opener": inPage(`const text = "<script>opener.close(); setTimeout(() => { location = " + JSON.stringify(denied) + " }, 50)</" + "script>";
		open("about:blank").document.write(text)`),
	"history-back": func(t *testing.T, w *wall, denied string) {
		session := w.page(t)
		w.navigate(t, session, denied)
		w.navigate(t, session, w.url("www.allowed", "/next"))
		w.run(t, session, "history.back()")
	},

	"javascript-location": inPage(`location = "javascript:fetch(" + JSON.stringify(denied) + ", {mode: 'no-cors'})"`),
	"javascript-link":     inPage(`Object.assign(document.createElement("a"), {href: "javascript:void(location=" + JSON.stringify(denied) + ")"}).click()`),
	"javascript-popup":    inPage(`open("javascript:fetch(" + JSON.stringify(denied) + ", {mode: 'no-cors'})")`),
	"javascript-frame":    frameOf(`"javascript:" + JSON.stringify(` + embedded + `)`),
	"data-image":          frameOf(`"data:text/html," + ` + embedded),
	"data-script":         frameOf(`"data:text/html," + encodeURIComponent(` + scripted + `)`),
	"data-refresh":        frameOf(`'data:text/html,<meta http-equiv="refresh" content="0; url=' + denied + '">'`),
	"data-form":           frameOf(`'data:text/html,<form action="' + denied + '"></form><script>document.forms[0].submit()</script>'`),
	"data-worker":         inPage(`new Worker("data:text/javascript," + encodeURIComponent("fetch(" + JSON.stringify(denied) + ", {mode: 'no-cors'})"))`),
	"data-picture":        frameOf(`"data:image/svg+xml," + encodeURIComponent('<svg xmlns="http://www.w3.org/2000/svg"><image href="' + denied + '"/></svg>')`),
	"blob-image":          frameOf(blobOf(embedded)),
	"blob-script":         frameOf(blobOf(scripted)),
	"written-popup":       inPage(`open("about:blank").document.write(` + embedded + `)`),
	"written-frame":       inPage(`document.body.append(Object.assign(document.createElement("iframe"), {srcdoc: ` + scripted + `}))`),
}

// loadingDocuments are shown before they are replaced, and load a denied URL.
func loadingDocuments(denied string) map[string]shownEscape {
	assignment := "denied = " + quoted(denied) + "; "
	return map[string]shownEscape{
		"blob-popup":    {"blob:", inPage(assignment + `open(` + blobOf(embedded) + `)`)},
		"blob-location": {"blob:", inPage(assignment + `location = ` + blobOf(scripted))},
		"typed-data": {"data:", func(t *testing.T, w *wall, _ string) {
			openPastRelay(t, w, "data:text/html,"+url.PathEscape(`<img src="`+denied+`">`))
		}},
	}
}

// TestGuard_HoldsWhereOthersWerePassed allows some hosts, for documents and for connections.
func TestGuard_HoldsWhereOthersWerePassed(t *testing.T) {
	w := newWall(t, &netrules.Rules{
		Navigate: &netrules.Filter{Allow: []string{allowedHosts}},
		Connect:  &netrules.Filter{Allow: []string{allowedHosts}},
	}, nil)
	w.try(t, reportedEscapes)
	w.tryShown(t, loadingDocuments(w.url("shown", "/")))
	if hits := w.requested(); len(hits) > 0 {
		t.Errorf("%d requests of documents that were shown: %v", len(hits), hits)
	}
}
