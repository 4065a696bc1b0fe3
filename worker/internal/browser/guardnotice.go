package browser

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

const (
	maxNotices    = 8               // that are written at a time; a further document keeps Chromium's page
	noticeQueue   = 512             // unread events while one is written
	noticeTimeout = 5 * time.Second // from a denied request until its notice is written
)

// errorPage is the URL of Chromium's pages about failed requests.
const errorPage = "chrome-error://chromewebdata/"

// writeNotice is a function of JavaScript that writes a text into Chromium's page about a
// failed request, and into no other document. It waits for the scripts of that page.
const writeNotice = `function (title, ...lines) {
	const write = () => {
		if (location.href !== "` + errorPage + `") return;
		const body = document.createElement("body"), head = document.createElement("head");
		const add = (parent, name, text) => { parent.append(Object.assign(document.createElement(name), {textContent: text})) };
		add(head, "title", title);
		add(body, "h1", title);
		lines.forEach((line) => add(body, "p", line));
		body.style.cssText = "max-width: 40em; margin: 4em auto; padding: 0 1em; font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere";
		document.documentElement.replaceChildren(head, body);
	};
	if (document.readyState === "complete") write(); else addEventListener("load", write, {once: true});
}`

// explain writes into Chromium's page about a denied document which rule denies it.
// Documents of frames that are no targets keep Chromium's page.
func (g *guard) explain(r pausedRequest, v netrules.Verdict) {
	select {
	case g.notices <- struct{}{}:
		defer func() { <-g.notices }()
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), noticeTimeout)
	defer cancel()
	changes := g.conn.Subscribe(noticeQueue, "Target.targetInfoChanged")
	defer changes.Close()
	var attached struct{ SessionID string }
	if err := g.conn.Call(ctx, "", "Target.attachToTarget", object{"targetId": r.FrameID, "flatten": true}, &attached); err != nil {
		return // not a target, or closed
	}
	p := noticePage{conn: g.conn, session: attached.SessionID, frame: r.FrameID, loader: r.NetworkID, address: r.Request.URL}
	err := p.write(ctx, changes, "This page is blocked", r.Request.URL, "It is denied by "+v.String()+".")
	if err != nil && !errors.Is(err, cdp.ErrClosed) {
		g.log.Debug("failed to write which rule denies a document", "error", err) // it was replaced by another
	}
	detaching, cancelDetaching := context.WithTimeout(context.Background(), noticeTimeout)
	defer cancelDetaching()
	_ = g.conn.Call(detaching, "", "Target.detachFromTarget", object{"sessionId": attached.SessionID}, nil)
}

// noticePage is Chromium's page about a failed request.
type noticePage struct {
	conn                            *cdp.Conn
	session, frame, loader, address string
}

// write writes a text into the page, once it is shown.
func (p noticePage) write(ctx context.Context, changes *cdp.Subscription, texts ...string) error {
	if err := p.await(ctx, changes); err != nil {
		return err
	}
	var world struct{ ExecutionContextID int }
	err := p.conn.Call(ctx, p.session, "Page.createIsolatedWorld", object{"frameId": p.frame, "worldName": "svc"}, &world)
	if err != nil {
		return err
	}
	// The context is of this document or of an earlier one, and then it does not exist any more.
	if ready, err := p.isShown(ctx); err != nil || !ready {
		return errors.Join(err, errors.New("another document is shown"))
	}
	arguments := make([]object, 0, len(texts))
	for _, text := range texts {
		arguments = append(arguments, object{"value": text})
	}
	return p.conn.Call(ctx, p.session, "Runtime.callFunctionOn", object{
		"functionDeclaration": writeNotice, "executionContextId": world.ExecutionContextID, "arguments": arguments,
	}, nil)
}

// await waits until the page is shown.
func (p noticePage) await(ctx context.Context, changes *cdp.Subscription) error {
	for {
		if ready, err := p.isShown(ctx); err != nil || ready {
			return err
		}
		for changed := false; !changed; {
			select {
			case event, ok := <-changes.Events():
				if !ok {
					return changes.Err()
				}
				var target struct{ TargetInfo targetState }
				changed = json.Unmarshal(event.Params, &target) == nil && target.TargetInfo.TargetID == p.frame
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// isShown reports whether the frame shows the page. The loader is not known if nobody was
// attached to the frame when the request was sent.
func (p noticePage) isShown(ctx context.Context) (bool, error) {
	var tree struct {
		FrameTree struct {
			Frame struct{ LoaderID, URL, UnreachableURL string }
		}
	}
	err := p.conn.Call(ctx, p.session, "Page.getFrameTree", nil, &tree)
	frame := tree.FrameTree.Frame
	address, _, _ := strings.Cut(frame.UnreachableURL, "#")
	return frame.URL == errorPage && address == p.address && (p.loader == "" || p.loader == frame.LoaderID), err
}
