package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/browser-svc/svc/shared/ws"
)

// resumingClient is a client that resumes its connection. It makes calls and
// expects each reply once, in order.
type resumingClient struct {
	address  string // URL of the browser, with the client's name
	calls    int
	received int // number of answers received
}

// maxCuts is the number of times that one client is cut off.
const maxCuts = 6

// resumeAfterCuts cuts the client off in the middle of its calls and repeatedly
// in the middle of the replies, and checks that no reply is lost.
func resumeAfterCuts(ctx context.Context, t *scenarioRun) error {
	if err := t.launch(ctx); err != nil {
		return err
	}
	c := resumingClient{address: value(t.session.WebSocketDebuggerUrl) + "&client=" + t.token, calls: 1000}
	for cuts := 0; c.received < c.calls; cuts++ {
		over, err := openCutProxy(t.worker.url)
		if err != nil {
			return err
		}
		socket, err := c.connect(ctx, over)
		if refused, ok := errors.AsType[*ws.RefusedError](err); ok && refused.Status == http.StatusBadRequest && strings.Contains(refused.Body, "does not resume connections") {
			over.close()
			t.log.count("resume: disabled, RESUME_SECONDS is 0")
			break
		}
		if err == nil {
			if cuts < maxCuts {
				over.cutAfter(direction(min(cuts, 1)), 1+t.rng.Int64N(8<<10))
			}
			err = c.exchange(ctx, socket)
			t.log.count("resume: a socket")
		}
		over.close()
		if err != nil {
			return fmt.Errorf("after %d cuts and %d answers: %w", cuts, c.received, err)
		}
	}
	return errors.Join(t.kill(ctx), t.waitForEnd(ctx))
}

func (c *resumingClient) connect(ctx context.Context, over *cutProxy) (*ws.Conn, error) {
	address := strings.Replace(c.address, "ws://", "http://", 1)
	address = strings.Replace(over.rewriteURL(address), "http://", "ws://", 1)
	return ws.Dial(ctx, fmt.Sprintf("%s&resume=%d", address, c.received), nil, ws.Options{})
}

// exchange continues from the worker's status message until all calls are answered or
// the socket is cut off.
func (c *resumingClient) exchange(ctx context.Context, socket *ws.Conn) error {
	defer socket.CloseNow()
	_, first, err := socket.Read(ctx)
	if err != nil {
		return c.ignoreCut(ctx, err)
	}
	var greeting struct {
		Method string
		Params struct{ Received, Sent int }
	}
	if err := json.Unmarshal(first, &greeting); err != nil || greeting.Method != "Svc.resumed" || greeting.Params.Sent < c.received {
		return fmt.Errorf("the worker sent the status %.200s, but %d answers were received", first, c.received)
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	defer socket.CloseNow()
	sending.Go(func() {
		for id := greeting.Params.Received + 1; id <= c.calls; id++ {
			if socket.Write(ctx, ws.Text, fmt.Appendf(nil, `{"id":%d,"method":"Browser.getVersion"}`, id)) != nil {
				return
			}
		}
	})
	for c.received < c.calls {
		_, message, err := socket.Read(ctx)
		if err != nil {
			return c.ignoreCut(ctx, err)
		}
		var answer struct{ ID int }
		if err := json.Unmarshal(message, &answer); err != nil || answer.ID != c.received+1 {
			return fmt.Errorf("answer %d is %.200s", c.received+1, message)
		}
		c.received++
	}
	_ = socket.Close(ws.NormalClosure, "")
	return nil
}

// ignoreCut returns nil if the socket was cut off without a close frame.
func (c *resumingClient) ignoreCut(ctx context.Context, err error) error {
	if status := ws.CloseStatus(err); status >= 0 || ctx.Err() != nil {
		return fmt.Errorf("the connection ended with status %d: %w", status, err)
	}
	return nil
}
