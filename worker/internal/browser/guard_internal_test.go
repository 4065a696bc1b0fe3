package browser

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// TestGuard_EndsBrowserAfterLostRequests does not answer a paused request, so that the queue of the others overflows.
func TestGuard_EndsBrowserAfterLostRequests(t *testing.T) {
	fromBrowser, output, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	input, toBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	conn := cdp.New(fromBrowser, toBrowser)
	ended := make(chan struct{})
	g := newGuard(conn, nil, slog.New(slog.NewTextHandler(t.Output(), nil)), func() { close(ended) })
	g.queue = 1
	defer func() {
		input.Close()
		conn.Close()
		g.wait()
		output.Close()
	}()
	rules, err := netrules.NewPolicy(netrules.Level{Name: "launch", Rules: &netrules.Rules{Navigate: &netrules.Filter{}}})
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() { started <- g.start(t.Context(), &Spec{Rules: rules}) }()
	if _, err := bufio.NewReaderSize(input, 16).ReadBytes(0); err != nil { // Fetch.enable
		t.Fatal(err)
	}
	fmt.Fprint(output, "{\"id\":1,\"result\":{}}\x00")
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	for range 20000 {
		if _, err := fmt.Fprint(output, "{\"method\":\"Fetch.requestPaused\",\"params\":{\"requestId\":\"1\",\"resourceType\":\"Document\",\"request\":{\"url\":\"https://example.com/\",\"method\":\"GET\"}}}\x00"); err != nil {
			break
		}
		select {
		case <-ended:
			return
		default:
		}
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the browser continues although requests were lost")
	}
}
