// Package intercept handles the few CDP calls that a browser cannot handle alone, on
// all CDP connections of its clients:
//
//   - Target.createBrowserContext with a proxyServer. A browser in a sandbox reaches
//     nothing but its forward proxy, so this opens an address of that proxy for the
//     context, and the browser gets the address in place of the proxy's.
//   - Target.createTarget with a URL, if pages have settings. A complete browser requests
//     the URL before the settings can be applied, so this opens a blank page, which the
//     worker navigates. The servers of /json/new do the same.
//   - DOM.setFileInputFiles with a path that the browser cannot read. Chromium would
//     put an empty file into the page. Runtime.callFunctionOn after that: see directory.go.
//   - Browser.setDownloadBehavior and Page.setDownloadBehavior, unless they deny downloads.
//     Clients name paths of their own machine; the browser stores downloads in the
//     directory of the launch instead, each with its guid as its name.
//   - Svc.requestHuman and Svc.cancelHuman, which hand the browser to a person (package
//     handover). Until the person is done, messages of all clients are held.
//   - Svc.fillSecret, which fills a field of the page with a secret of the organization. The
//     browser is asked for the target of the session; the client does not get that answer.
//   - Browser.close: the answer is held until the end is recorded (RelayOptions.End),
//     and the worker may end the browser when it has answered.
//   - Page.navigate and others, if the rules of the launch can deny them: see rules.go.
//   - Extensions.loadUnpacked. The worker checks extensions before it stores them, and
//     loads them at the launch.
//   - Target.exposeDevToolsProtocol, which gives a page the protocol. The worker is between
//     that page and the browser, so that its calls are those of a client. chromedriver
//     carries out the commands of WebDriver BiDi in such a page.
//   - Target.sendMessageToTarget with an intercepted call in its message.
//
// All of this holds for the calls of chromedriver and of its page too, and so for every
// command that leads to them. TestWebDriver_InterceptsCommands has those that a client can
// send: commands of WebDriver BiDi, with goog:cdp.sendCommand, and of chromedriver, with
// goog/cdp/execute and chromium/send_command.
//
// Frames are forwarded unchanged. Their headers are read to find message boundaries,
// and the beginning of client messages to find their method.
package intercept

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strconv"
	"sync"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/cdp/handover"
	"github.com/browser-svc/svc/worker/internal/cdp/tap"
)

// Options configures Calls.
type Options struct {
	// OpenProxy opens a proxy address for one browser context, with this proxy server
	// and bypass list as the client gives them. The address is empty if the context
	// uses the browser's own egress. Errors are for the client and hold no credentials.
	// Nil: the browser connects to proxies itself.
	OpenProxy func(server, bypass string) (address string, closeProxy func(), err error)
	// Navigate navigates a new, blank page to a URL once the page has its settings, and
	// returns at once. It is called if HasSettings reports that pages have settings. Nil:
	// the browser opens the URLs of new pages itself.
	Navigate    func(targetID, url string)
	HasSettings func() bool
	// CheckFile returns an error if the browser cannot read a file: fs.ErrNotExist if
	// there is none. Nil: not checked.
	CheckFile func(path string) error
	// CaptureDownloads makes browser contexts, "" for the default one and none for all,
	// store their downloads in DownloadPath, with their guids as names. Nil: clients choose
	// where downloads are stored.
	CaptureDownloads func(contexts ...string)
	DownloadPath     string
	// FillSecret fills a field of a target as the parameters of Svc.fillSecret say. Its
	// errors are *fault.Error. Nil: there are no secrets.
	FillSecret func(ctx context.Context, targetID string, params json.RawMessage) (result any, err error)
	// ExposeProtocol gives a page an object in its window, named like the binding, with send
	// and onmessage for the messages of a client. Its errors are *fault.Error. Nil: the
	// browser does it.
	ExposeProtocol func(ctx context.Context, targetID, binding string) error
	// Rules returns the rules of the launch, nil for none. Nil: there are none.
	Rules func() *netrules.Policy
	// End ends the browser after it has accepted Browser.close, and returns at once. Nil:
	// the browser ends by itself.
	End func()
}

// Calls handles the intercepted calls of one browser. Nil intercepts nothing. It is
// safe for concurrent use.
type Calls struct {
	Options
	handovers *handover.Handovers
	tapped    tap.Tap

	closing     context.Context // ends when the browser has accepted Browser.close
	markClosing context.CancelFunc

	mu      sync.Mutex
	proxies map[string]func() // closes a context's proxy; by browserContextId
}

// New returns the Calls of a browser. The owner of the proxies closes those that are
// open when the browser ends.
func New(o Options) *Calls {
	c := &Calls{Options: o, handovers: handover.New(), proxies: map[string]func(){}}
	c.closing, c.markClosing = context.WithCancel(context.Background())
	return c
}

// Handovers returns the handovers of the browser to persons.
func (c *Calls) Handovers() *handover.Handovers {
	if c == nil {
		return nil
	}
	return c.handovers
}

// Closing returns a context that ends when the browser has accepted Browser.close of a
// client.
func (c *Calls) Closing() context.Context { return c.closing }

// Connect returns a new connection. The caller must call Close.
func (c *Calls) Connect() *Connection {
	n := &Connection{calls: c}
	n.ctx, n.leave = context.WithCancel(context.Background())
	return n
}

// add registers the proxy of a new context.
func (c *Calls) add(contextID string, closeProxy func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proxies[contextID] = closeProxy
}

func (c *Calls) hasProxy(contextID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proxies[contextID] != nil
}

// closeProxy closes the proxy of a disposed context, if it has one.
func (c *Calls) closeProxy(contextID string) {
	c.mu.Lock()
	closeProxy := c.proxies[contextID]
	delete(c.proxies, contextID)
	c.mu.Unlock()
	if closeProxy != nil {
		closeProxy()
	}
}

// close records that the browser has accepted Browser.close.
func (c *Calls) close() {
	c.markClosing()
	if c.End != nil {
		c.End()
	}
}

// checkFile returns the text of an error for the client, or nothing.
func (c *Calls) checkFile(path string) string {
	if c.CheckFile == nil {
		return ""
	}
	const advice = ": the path is looked up on the browser's machine, in its sandbox. Send the content instead of a path " +
		"(Playwright: setInputFiles with name, mimeType and buffer; Selenium: LocalFileDetector), or use a path that the browser can read. " +
		"PUT /browsers/{launchId}/files/{name} uploads a file and returns such a path."
	switch err := c.CheckFile(path); {
	case err == nil:
		return ""
	case errors.Is(err, fs.ErrNotExist):
		return "The browser has no file " + strconv.Quote(path) + advice
	default:
		return "The browser cannot read " + strconv.Quote(path) + advice
	}
}
