package browser

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser/process"
)

const (
	flushTimeout    = 2 * time.Second
	rendererTimeout = 500 * time.Millisecond // for the end of renderers after the end of their pages
)

// flushLocalStorage makes the browser write the local storage of its pages. Chromium writes it
// up to five seconds late, but at once when the renderers of its pages have ended. The process
// that writes it ends with the browser, even if it has not written it yet.
func (b *Browser) flushLocalStorage(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	renderers := b.renderers()
	var blank struct{ TargetID string } // without a page, the browser would end
	if err := b.conn.Call(ctx, "", "Target.createTarget", object{"url": "about:blank"}, &blank); err != nil {
		return fmt.Errorf("open a page: %w", err)
	}
	var list struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	if err := b.conn.Call(ctx, "", "Target.getTargets", nil, &list); err != nil {
		return fmt.Errorf("list targets: %w", err)
	}
	for _, target := range list.TargetInfos {
		if target.TargetID == blank.TargetID || !slices.Contains([]string{"page", "service_worker", "shared_worker"}, target.Type) {
			continue
		}
		reply, err := b.conn.Send(ctx, "", "Target.closeTarget", object{"targetId": target.TargetID})
		if err != nil {
			return fmt.Errorf("close a target: %w", err)
		}
		reply.Discard() // it may be gone already
	}
	if err := endRenderers(ctx, renderers); err != nil {
		return err
	}
	// The answer follows all writes, because they are done in order. No site has this origin.
	var page struct{ SessionID string }
	if err := b.conn.Call(ctx, "", "Target.attachToTarget", object{"targetId": blank.TargetID, "flatten": true}, &page); err != nil {
		return fmt.Errorf("attach to a page: %w", err)
	}
	nothing := object{"origin": "https://flush.invalid", "storageTypes": "local_storage"}
	if err := b.conn.Call(ctx, page.SessionID, "Storage.clearDataForOrigin", nothing, nil); err != nil {
		return fmt.Errorf("wait for the local storage: %w", err)
	}
	return nil
}

// renderers returns the processes that run pages and workers.
func (b *Browser) renderers() []process.Info {
	ofBrowser := b.matchProcesses()
	return process.List(func(p process.Info) bool {
		if !ofBrowser(p) {
			return false
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		return err == nil && bytes.Contains(line, []byte("--type=renderer"))
	})
}

// endRenderers waits until renderers have ended, and kills them after rendererTimeout.
func endRenderers(ctx context.Context, renderers []process.Info) error {
	for deadline := time.Now().Add(rendererTimeout); time.Now().Before(deadline); {
		if !slices.ContainsFunc(renderers, isAlive) {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return process.KillAll(func(p process.Info) bool { return slices.Contains(renderers, p) })
}

func isAlive(p process.Info) bool {
	_, alive := process.Read(p.PID)
	return alive
}
