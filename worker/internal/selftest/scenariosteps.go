package selftest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/ws"
)

// drive connects to the browser, performs some actions and disconnects.
func (t *scenarioRun) drive(ctx context.Context) error {
	c, err := t.connect(ctx)
	if err != nil {
		return err
	}
	defer c.disconnect()
	return t.runActions(ctx, c)
}

// runActions loads a page and performs two random actions.
func (t *scenarioRun) runActions(ctx context.Context, c *client) error {
	page, err := c.newTab(ctx)
	if err != nil {
		return err
	}
	if err := page.open(ctx, t.site.pageURL(t.token), t.token); err != nil {
		return err
	}
	t.log.recordDuration(phaseLoaded, time.Since(t.launchedAt))
	acts := []struct {
		name string
		do   func() error
	}{
		{"evaluate", func() error { return t.evaluate(ctx, page) }},
		{"screenshot", func() error { return page.capture(ctx, "Page.captureScreenshot", "\x89PNG") }},
		{"PDF", func() error { return t.print(ctx, page) }},
		{"new tab", func() error { _, err := c.newTab(ctx); return err }},
		{"live view", func() error { return t.openLiveView(ctx) }},
		{"screenshot by the worker", func() error { return t.get(ctx, "screenshot", "\x89PNG") }},
		{"list of targets", func() error { return t.get(ctx, "json/list", "[") }},
	}
	for _, i := range t.rng.Perm(len(acts))[:2] {
		if err := acts[i].do(); err != nil {
			return fmt.Errorf("%s: %w", acts[i].name, err)
		}
		t.log.count(t.label("drive: " + acts[i].name))
	}
	return nil
}

// call sends a request to one of the browser's routes.
func (t *scenarioRun) call(ctx context.Context, method, route, body string) (status int, text string, err error) {
	address := fmt.Sprintf("%s/browsers/%s/%s", t.worker.url, t.session.LaunchId, route)
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("X-API-Key", t.worker.key)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := t.worker.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(all), err
}

func (t *scenarioRun) evaluate(ctx context.Context, page tab) error {
	var sum int
	if err := page.evaluate(ctx, "new Promise(done => setTimeout(() => done(6 * 7), 1))", &sum); err != nil || sum != 42 {
		return errors.Join(err, fmt.Errorf("6*7 was evaluated to %d", sum))
	}
	return nil
}

// print requests a PDF; a headful browser may not support it.
func (t *scenarioRun) print(ctx context.Context, page tab) error {
	if !value(t.settings.Headless) {
		return page.capture(ctx, "Page.captureScreenshot", "\x89PNG")
	}
	return page.capture(ctx, "Page.printToPDF", "%PDF")
}

func (t *scenarioRun) openLiveView(ctx context.Context) error {
	began := time.Now()
	address, _, _ := strings.Cut(value(t.session.ViewUrl), "/view?")
	_, token, _ := strings.Cut(value(t.session.ViewUrl), "/view?")
	if err := waitForPicture(ctx, address+"/vnc?"+token); err != nil {
		return err
	}
	t.log.recordDuration(phasePicture, time.Since(began))
	return nil
}

// get requests one of the browser's routes and checks the start of the response.
func (t *scenarioRun) get(ctx context.Context, route, begins string) error {
	status, body, err := t.call(ctx, http.MethodGet, route, "")
	if err != nil {
		return err
	}
	if status != http.StatusOK || !strings.HasPrefix(body, begins) {
		return fmt.Errorf("%s was answered %d %.200s", route, status, body)
	}
	return nil
}

func closeRoute(ctx context.Context, t *scenarioRun) error {
	t.markEndRequested()
	status, body, err := t.call(ctx, http.MethodPost, "close", "{}")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("close was answered %d %s", status, body)
	}
	return err
}

func closeBrowser(ctx context.Context, t *scenarioRun) error {
	c, err := t.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return t.closeBrowserOver(ctx, c)
}

// closeBrowserOver sends Browser.close; the browser may end before it answers.
func (t *scenarioRun) closeBrowserOver(ctx context.Context, c *client) error {
	t.markEndRequested()
	err := c.Call(ctx, "", "Browser.close", nil, nil)
	select {
	case <-c.Done():
		return nil
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
}

// waitForLimit launches with a limit and waits until it ends the browser.
func waitForLimit(limit func(t *scenarioRun)) func(context.Context, *scenarioRun) error {
	return func(ctx context.Context, t *scenarioRun) error {
		limit(t)
		if err := t.launch(ctx); err != nil {
			return err
		}
		t.markEndRequested()
		return t.waitForEnd(ctx)
	}
}

func socketClosed(ctx context.Context, t *scenarioRun) error {
	c, err := t.launchBySocket(ctx, t.worker.url)
	if err != nil {
		return err
	}
	err = t.runActions(ctx, c)
	t.markEndRequested()
	c.disconnect()
	return errors.Join(err, t.waitForEnd(ctx))
}

func socketKeptAlive(ctx context.Context, t *scenarioRun) error {
	t.settings.KeepAlive = new(true)
	c, err := t.launchBySocket(ctx, t.worker.url)
	if err != nil {
		return err
	}
	err = t.runActions(ctx, c)
	c.disconnect()
	if err == nil {
		err = t.drive(ctx) // the browser keeps running
	}
	return errors.Join(err, t.kill(ctx), t.waitForEnd(ctx))
}

func socketBrowserClose(ctx context.Context, t *scenarioRun) error {
	c, err := t.launchBySocket(ctx, t.worker.url)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return errors.Join(t.runActions(ctx, c), t.closeBrowserOver(ctx, c), t.waitForEnd(ctx))
}

// cutMidFrame sends a long message and resets the connection in the middle of
// it.
func cutMidFrame(ctx context.Context, over *cutProxy, c *client) {
	over.cutAfter(fromClient, 40<<10)
	_ = c.Call(ctx, "", "Runtime.evaluate", map[string]any{"expression": strings.Repeat("x", 256<<10)}, nil)
	<-c.Done()
	_ = c.Close()
}

func cutClient(ctx context.Context, t *scenarioRun) error {
	if err := t.launch(ctx); err != nil {
		return err
	}
	over, err := openCutProxy(t.worker.url)
	if err != nil {
		return err
	}
	defer over.close()
	c, err := dial(ctx, over.rewriteURL(strings.Replace(value(t.session.WebSocketDebuggerUrl), "ws://", "http://", 1)), nil)
	if err != nil {
		return err
	}
	t.recordFirstAnswer(t.firstAnswer(ctx, c))
	cutMidFrame(ctx, over, c)
	return errors.Join(t.drive(ctx), t.kill(ctx), t.waitForEnd(ctx)) // the browser keeps running
}

func cutSocket(ctx context.Context, t *scenarioRun) error {
	over, err := openCutProxy(t.worker.url)
	if err != nil {
		return err
	}
	defer over.close()
	c, err := t.launchBySocket(ctx, over.rewriteURL(t.worker.url))
	if err != nil {
		return err
	}
	t.markEndRequested()
	cutMidFrame(ctx, over, c)
	return t.waitForEnd(ctx)
}

// cutView disconnects in the middle of the live view's handshake.
func cutView(ctx context.Context, t *scenarioRun) error {
	if err := t.launch(ctx); err != nil {
		return err
	}
	over, err := openCutProxy(t.worker.url)
	if err != nil {
		return err
	}
	defer over.close()
	socket, err := ws.Dial(ctx, strings.Replace(over.rewriteURL(value(t.session.ViewUrl)), "/view?", "/vnc?", 1),
		http.Header{"Sec-Websocket-Protocol": {"binary"}}, ws.Options{})
	if err != nil {
		return err
	}
	over.cutAfter(fromClient, 15) // within the client's version message
	_ = socket.Write(ctx, ws.Binary, []byte("RFB 003.008\n"))
	_, _, err = socket.Read(ctx)
	for err == nil {
		_, _, err = socket.Read(ctx)
	}
	_ = socket.CloseNow()
	return errors.Join(t.openLiveView(ctx), t.kill(ctx), t.waitForEnd(ctx))
}

// abandonLaunch disconnects during the launch.
func abandonLaunch(ctx context.Context, t *scenarioRun) error {
	wait := time.Duration(t.rng.Int64N(int64(250 * time.Millisecond)))
	impatient, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	answer, err := t.requestLaunch(impatient)
	if err == nil && answer.JSON201 != nil { // the launch was faster
		t.session = answer.JSON201.Data
		t.log.update(t.expected, func(e *expectation) { e.reasons = append(e.reasons, "killed") })
		return t.kill(ctx)
	}
	return nil
}
