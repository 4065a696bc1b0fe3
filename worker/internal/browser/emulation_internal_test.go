package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// TestEmulator_GrantBlocksNoClient reads the state that clients need to open pages, while the
// browser has not answered the grant of permissions to a first page. A second page of the same
// context needs no other grant.
func TestEmulator_GrantBlocksNoClient(t *testing.T) {
	fromBrowser, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromWorker, toBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	conn := cdp.New(fromBrowser, toBrowser)
	e := newEmulator(conn, slog.New(slog.NewTextHandler(t.Output(), nil)), func() { t.Error("the browser ended") })
	defer func() {
		conn.Close()
		e.wait()
		fromWorker.Close()
		out.Close()
	}()
	requests := bufio.NewReader(fromWorker)
	await := func(method string) (id int64) {
		t.Helper()
		raw, err := requests.ReadBytes(0)
		var request struct {
			ID     int64
			Method string
		}
		if err != nil || json.Unmarshal(bytes.TrimSuffix(raw, []byte{0}), &request) != nil || request.Method != method {
			t.Fatalf("got %s %v, want %s", raw, err, method)
		}
		return request.ID
	}
	send := func(format string, args ...any) { fmt.Fprintf(out, format+"\x00", args...) }
	answer := func(id int64) { send(`{"id":%d,"result":{}}`, id) }
	attach := func(name string) {
		send(`{"method":"Target.attachedToTarget","params":{"sessionId":%q,"targetInfo":{"targetId":%[1]q,"type":"page","browserContextId":"C"}}}`, name)
	}
	started := make(chan error, 1)
	go func() {
		started <- e.start(t.Context(), &Spec{Options: settings.Options{Permissions: []string{"geolocation"}}})
	}()
	answer(await("Target.setAutoAttach"))
	attach("first")
	grant := await("Browser.grantPermissions")
	answered := make(chan bool, 1)
	go func() { answered <- e.started() }()
	select {
	case <-answered:
	case <-time.After(5 * time.Second):
		t.Fatal("a client waits for the grant")
	}
	answer(grant)
	answer(await("Runtime.runIfWaitingForDebugger"))
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	attach("second")
	answer(await("Runtime.runIfWaitingForDebugger"))
}
