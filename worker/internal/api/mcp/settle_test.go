package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/ws"
	"github.com/browser-svc/svc/worker/internal/api/mcp"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/session/activity"
)

// loadTime is how long a navigation of loadingPage takes.
const loadTime = 20 * time.Millisecond

// loadingPage is a DevTools server with one page, which starts a navigation in each
// evaluation. The event of its start is read together with the answer.
type loadingPage struct {
	navigations atomic.Int64 // that have ended
}

func (p *loadingPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := ws.Accept(w, r, ws.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.CloseNow() }()
	send := func(format string, args ...any) {
		_ = conn.Write(r.Context(), ws.Text, fmt.Appendf(nil, format, args...)) // the client may have left
	}
	for {
		var call struct {
			ID                int
			SessionID, Method string
		}
		_, text, err := conn.Read(r.Context())
		if err != nil || json.Unmarshal(text, &call) != nil {
			return
		}
		before, result := "", "{}"
		switch call.Method {
		case "Target.setAutoAttach":
			if call.SessionID == "" {
				send(`{"method":"Target.attachedToTarget","params":{"sessionId":"S","targetInfo":{"targetId":"T","type":"page"}}}`)
			}
		case "Target.getTargets":
			result = `{"targetInfos":[{"targetId":"T","type":"page"}]}`
		case "Runtime.evaluate":
			before = `{"sessionId":"S","method":"Page.frameStartedLoading","params":{"frameId":"T"}}` + "\x00"
			time.AfterFunc(loadTime, func() {
				p.navigations.Add(1)
				send(`{"sessionId":"S","method":"Page.frameStoppedLoading","params":{"frameId":"T"}}`)
			})
		case "Page.getNavigationHistory":
			result = fmt.Sprintf(`{"entries":[{"url":"http://site.example","title":"Page %d"}]}`, p.navigations.Load())
		}
		send(`%s{"id":%d,"sessionId":%q,"result":%s}`, before, call.ID, call.SessionID, result)
	}
}

// pageLaunches finds one browser.
type pageLaunches struct {
	*launches
	browser access.Browser
}

func (l pageLaunches) Find(string) (access.Browser, bool) { return l.browser, true }

// With one processor, an answer wakes its caller before the goroutine that handles the
// event before it.
func TestPressKey_WaitsForNavigation(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	page := httptest.NewServer(&loadingPage{})
	defer page.Close()
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", page.Listener.Addr().String())
	}
	var l launches
	address := serve(t, &l, func(o *mcp.Options) {
		o.Browsers = pageLaunches{&l, access.Browser{Dial: dial, DebugPath: "/", Activity: activity.New(clock.System{})}}
	})
	s := mustConnect(t, address, "worker")
	call := func(tool string, arguments any) string {
		answer, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
		if err != nil || answer.IsError {
			t.Fatalf("%s: %v %v", tool, answer, err)
		}
		return answer.Content[0].(*sdk.TextContent).Text
	}
	call("launch_browser", nil)
	for i := range 10 {
		if text := call("press_key", map[string]any{"key": "Enter"}); !strings.Contains(text, fmt.Sprintf("Page %d", i+1)) {
			t.Errorf("after navigation %d: %s", i+1, text)
		}
	}
}
