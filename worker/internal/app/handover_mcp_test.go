package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

func TestMCP_RequestsHuman(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	progress := make(chan *sdk.ProgressNotificationParams, 100)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, n *sdk.ProgressNotificationClientRequest) { progress <- n.Params },
	})
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: r.url + "/mcp", HTTPClient: &http.Client{Transport: keyTransport{workerKey, http.DefaultTransport}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	c := &mcpClient{session, r}
	c.refuse(t, "request_human", args{"reason": "Help."}, "No browser is open")
	c.do(t, "launch_browser", nil)
	c.do(t, "navigate", args{"url": "about:blank"})
	c.refuse(t, "request_human", args{"reason": " "}, "must say what the person is to do")
	_, text := r.call(t.Context(), t, "GET", "/sessions?status=running", "", "X-API-Key", workerKey)
	s := decode[workerapi.BrowserSessionListResponse](t, text).Data.Items[0]
	h := r.handovers(s)

	type outcome struct {
		text   string
		failed bool
	}
	tool := func(name string, arguments args) chan outcome {
		answered := make(chan outcome, 1)
		go func() {
			params := &sdk.CallToolParams{Name: name, Arguments: arguments}
			params.SetProgressToken("p1")
			answer, err := c.CallTool(t.Context(), params)
			if err != nil {
				answered <- outcome{err.Error(), true}
				return
			}
			raw, _ := json.Marshal(answer.Content)
			answered <- outcome{string(raw), answer.IsError}
		}()
		return answered
	}
	human := tool("request_human", args{"reason": "Solve it.", "timeoutSeconds": 60})
	testenv.Eventually(t, "an open handover", func() bool {
		return r.session(t, "GET", "/sessions/"+s.Id.String(), "").Handover != nil
	})
	if n := <-progress; n.ProgressToken != "p1" || n.Total != 60 || strings.Contains(n.Message, "ct=") {
		t.Errorf("got the progress %+v", n)
	}
	c.refuse(t, "request_human", args{"reason": "Again."}, "already open")
	snapshot := tool("snapshot", nil)
	h.ask(t, "GET", "/screenshot?width=320&format=jpeg", "", 200)
	select {
	case got := <-snapshot:
		t.Errorf("the snapshot was not held: %+v", got)
	default:
	}
	h.ask(t, "POST", "/handover/done", `{"note":"Solved ct=no"}`, 200)
	if got := <-human; got.failed || !strings.Contains(got.text, "Outcome: done") || !strings.Contains(got.text, "Solved") || !strings.Contains(got.text, "Page: ") {
		t.Errorf("got %+v", got)
	}
	if got := <-snapshot; got.failed {
		t.Errorf("the snapshot failed: %s", got.text)
	}
	c.do(t, "request_human", args{"reason": "Be quick.", "timeout_seconds": 1}, "Outcome: timeout")

	ended := tool("request_human", args{"reason": "Once more."})
	testenv.Eventually(t, "an open handover", func() bool {
		return r.session(t, "GET", "/sessions/"+s.Id.String(), "").Handover != nil
	})
	r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	if got := <-ended; !got.failed || !strings.Contains(got.text, "b1 has ended") {
		t.Errorf("got %+v", got)
	}
}
