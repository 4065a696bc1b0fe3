package storagestate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/cdp"
	"github.com/browser-svc/svc/worker/internal/data/storagestate"
	"github.com/browser-svc/svc/worker/internal/testing/browsertest"
)

// site serves pages that fill and show their storage.
type site struct {
	address  string   // http://localhost:port
	requests []string // paths
}

// fill puts every kind of value into the storage.
const fill = `(async () => {
	localStorage.setItem('cart', '3 items');
	localStorage.setItem('key', 'line\nbreak ☃');
	document.cookie = 'theme=dark; path=/; max-age=86400';
	const open = indexedDB.open('shop', 7);
	open.onupgradeneeded = () => {
		const items = open.result.createObjectStore('items', {keyPath: 'id'});
		items.createIndex('byTag', 'tags', {multiEntry: true, unique: false});
		open.result.createObjectStore('log', {autoIncrement: true});
		open.result.createObjectStore('pairs', {keyPath: ['a', 'b']});
		open.result.createObjectStore('dates');
		open.result.createObjectStore('unsupported', {autoIncrement: true});
	};
	const db = await new Promise(resolve => open.onsuccess = () => resolve(open.result));
	const change = db.transaction(db.objectStoreNames, 'readwrite');
	change.objectStore('items').add({id: 1, tags: ['red', 'blue'], price: 9.5, none: null});
	change.objectStore('items').add({id: 2, tags: [], bytes: new Uint8Array([0, 255, 7]), when: new Date(5), big: 12345678901234567890n, nan: NaN, zero: -0, gap: undefined, re: /a.b/gi});
	const loop = {name: 'loop'};
	loop.self = loop;
	change.objectStore('log').add(loop);
	change.objectStore('pairs').add({a: 1, b: 'x', c: true});
	change.objectStore('dates').add('plain', new Date(86400000));
	change.objectStore('unsupported').add(new Map([[1, 2]]));
	await new Promise(resolve => change.oncomplete = resolve);
	db.close();
})()`

// show returns the storage as text, with the types of its values.
const show = `(async () => {
	const text = value => {
		if (value instanceof Date) return 'Date ' + +value;
		if (value instanceof RegExp) return 'RegExp ' + value;
		if (ArrayBuffer.isView(value)) return value.constructor.name + ' ' + [...value];
		if (typeof value === 'bigint') return value + 'n';
		if (value === undefined || Object.is(value, -0) || Number.isNaN(value)) return Object.is(value, -0) ? '-0' : String(value);
		if (value && value.self === value) return 'loop ' + value.name;
		if (Array.isArray(value)) return value.map(text);
		if (value && typeof value === 'object') return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, text(v)]));
		return value;
	};
	const lines = ['cart ' + localStorage.cart, 'key ' + localStorage.key, 'cookies ' + document.cookie.split('; ').sort().join('; ')];
	for (const {name, version} of await indexedDB.databases()) {
		const open = indexedDB.open(name);
		const db = await new Promise(resolve => open.onsuccess = () => resolve(open.result));
		for (const store of db.objectStoreNames) {
			const from = db.transaction(store).objectStore(store);
			const get = what => new Promise(resolve => { const r = from[what](); r.onsuccess = () => resolve(r.result); });
			lines.push([name, version, store, from.keyPath, from.autoIncrement, [...from.indexNames]].join(' '));
			lines.push(JSON.stringify(text(await get('getAllKeys'))) + ' ' + JSON.stringify(text(await get('getAll'))));
		}
		db.close();
	}
	return lines.join('\n');
})()`

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests = append(s.requests, r.URL.Path)
		w.Header().Set("Content-Type", "text/html")
		http.SetCookie(w, &http.Cookie{Name: "id", Value: "secret", Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		fmt.Fprint(w, `<!doctype html><title>Shop</title>`)
	}))
	t.Cleanup(server.Close)
	s.address = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	return s
}

// connect opens a connection to a browser, as the worker's routes do.
func connect(t *testing.T, b *browser.Browser) *cdp.Conn {
	t.Helper()
	socket, err := ws.Dial(t.Context(), fmt.Sprintf("ws://127.0.0.1:%d%s", b.DebugPort, b.WebSocketPath), nil, ws.Options{ReadLimit: 64 << 20, DialContext: b.Dial})
	if err != nil {
		t.Fatal(err)
	}
	conn := cdp.OverWebSocket(socket)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// roundTrip encodes and decodes a state, as if a client had kept it.
func roundTrip(t *testing.T, state storagestate.State) *storagestate.State {
	t.Helper()
	raw, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	var kept storagestate.State
	if err := json.Unmarshal(raw, &kept); err != nil {
		t.Fatal(err)
	}
	return &kept
}

func read(t *testing.T, b *browser.Browser, databases bool) storagestate.State {
	t.Helper()
	state, err := storagestate.Read(t.Context(), connect(t, b), b.Origins(), databases)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func TestState_MovesBetweenBrowsers(t *testing.T) {
	launch := browsertest.NewLauncher(t)
	s := newSite(t)
	source := launch(browser.Spec{LaunchID: "from", Headless: true, Options: settings.Options{StartURLs: []string{}}})
	tab := browsertest.OpenTab(t, source, s.address+"/")
	tab.Eval(fill)
	want := tab.Eval(show)
	open := read(t, source, true)
	if open.OmittedRecords != 1 || len(open.Origins) != 1 || open.Origins[0].Origin != s.address {
		t.Fatalf("open tab: %d records omitted, origins %+v", open.OmittedRecords, open.Origins)
	}

	// Without the tab, the state is the same: the worker opens the origin itself, without the network.
	tab.Navigate("about:blank")
	before := len(s.requests)
	if diff := cmp.Diff(open, read(t, source, true)); diff != "" {
		t.Errorf("closed tab: %s", diff)
	}
	if len(s.requests) != before {
		t.Errorf("the site got requests: %v", s.requests[before:])
	}
	if without := read(t, source, false); len(without.Origins) != 1 || len(without.Origins[0].IndexedDB) > 0 || len(without.Origins[0].LocalStorage) != 2 {
		t.Errorf("without databases: %+v", without.Origins)
	}

	state := roundTrip(t, open)
	requests := ""
	target := launch(browser.Spec{
		LaunchID: "to", Headless: true, Options: settings.Options{StartURLs: []string{s.address + "/first"}},
		BeforeFirstPage: func(ctx context.Context, conn *cdp.Conn) error {
			err := state.Write(ctx, conn, "state.")
			requests = strings.Join(s.requests[before:], " ")
			return err
		},
	})
	if requests != "" {
		t.Errorf("requests before the state was set: %s", requests)
	}
	got := browsertest.OpenTab(t, target, s.address+"/second").Eval(show)
	if diff := cmp.Diff(withoutUnsupported(want), withoutUnsupported(got)); diff != "" {
		t.Error(diff)
	}
	if again := read(t, target, true); !cmp.Equal(open.Cookies, again.Cookies) {
		t.Error(cmp.Diff(open.Cookies, again.Cookies))
	}
}

// withoutUnsupported removes the records that the format cannot express.
func withoutUnsupported(text string) string {
	lines := strings.Split(text, "\n")
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "shop 7 unsupported") })
	if i < 0 {
		return text
	}
	return strings.Join(append(lines[:i+1], lines[i+2:]...), "\n")
}

func TestWrite_NamesRefusedValues(t *testing.T) {
	launch := browsertest.NewLauncher(t)
	b := launch(browser.Spec{LaunchID: "refused", Headless: true, Options: settings.Options{StartURLs: []string{}}})
	for name, test := range map[string]struct {
		state storagestate.State
		field string
	}{
		"cookie": {storagestate.State{Cookies: []storagestate.Cookie{
			{Name: "good", Value: "1", Domain: "example.com", Path: "/", Expires: -1},
			{Name: "__Host-bad", Value: "1", Domain: "example.com", Path: "/", Expires: -1},
		}}, "browser.state.cookies[1]"},
		"database": {storagestate.State{Origins: []storagestate.Origin{
			{Origin: "https://example.com"},
			{Origin: "https://example.org", IndexedDB: []storagestate.Database{{Name: "d", Version: 0}}},
		}}, "browser.state.origins[1]"},
	} {
		err := test.state.Write(t.Context(), connect(t, b), "browser.state.")
		failed, ok := errors.AsType[*fault.Error](err)
		if !ok || failed.Kind != fault.Validation || len(failed.Details) != 1 || failed.Details[0].Field != test.field {
			t.Errorf("%s: %v, want a detail for %s", name, err, test.field)
		}
	}
}

func TestCheck_NamesInvalidOrigins(t *testing.T) {
	state := &storagestate.State{Origins: []storagestate.Origin{
		{Origin: "https://example.com"}, {Origin: "https://example.com/"}, {Origin: "file:///etc"}, {Origin: "https://user@example.com"}, {Origin: "https://example.com"},
	}}
	var fields []string
	for _, detail := range state.Check("browser.state.") {
		fields = append(fields, detail.Field)
	}
	want := []string{"browser.state.origins[1].origin", "browser.state.origins[2].origin", "browser.state.origins[3].origin", "browser.state.origins[4].origin"}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Error(diff)
	}
	if none := (*storagestate.State)(nil).Check(""); none != nil {
		t.Errorf("no state: %v", none)
	}
}
