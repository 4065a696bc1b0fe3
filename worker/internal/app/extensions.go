package app

import (
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/extension"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// extensions gives launches the stored extensions.
type extensions struct {
	store     *extension.Store
	isolation func() sandbox.Report
}

// Find implements launch.Extensions. The settings of an extension take precedence over
// the command line, so only a network namespace keeps it from bypassing the proxy.
func (e extensions) Find(id string) (browser.Extension, *fault.Detail) {
	found, err := e.store.Get(id)
	if err != nil {
		return browser.Extension{}, &fault.Detail{Code: fault.ResourceNotFound, Message: "is not an extension of this worker; GET /extensions lists them"}
	}
	if found.CanBypassProxy() && !e.isolation().On(sandbox.NetworkNamespace) {
		return browser.Extension{}, &fault.Detail{
			Code: fault.Custom, Message: "cannot be loaded on this host: with its permission proxy or privacy it could bypass the egress " +
				"policy, because browsers have no network namespace; GET /fleet/status shows why",
		}
	}
	return browser.Extension{ChromiumID: found.ChromiumID}, nil
}

// Use implements launch.Extensions.
func (e extensions) Use(id string) (browser.Extension, func(), error) {
	found, err := e.store.Get(id)
	if err != nil {
		return browser.Extension{}, nil, err
	}
	dir, release, err := e.store.Use(id)
	return browser.Extension{ChromiumID: found.ChromiumID, Dir: dir}, release, err
}
