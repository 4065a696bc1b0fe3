package app

import (
	"context"
	"errors"
	"time"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/pagecache"
)

// checkFonts finds out which scripts browsers cannot show.
func (w *worker) checkFonts(ctx context.Context) {
	missing, err := browser.MissingScripts(ctx)
	if err != nil {
		w.logger.WarnContext(ctx, "failed to check the fonts", "error", err)
		return
	}
	if len(missing) > 0 {
		w.logger.WarnContext(ctx, "no font for some scripts; pages show empty boxes: install fonts-noto-core, fonts-noto-cjk and fonts-noto-color-emoji",
			"scripts", missing)
	}
	w.missingScripts.Store(&missing)
}

// loadPrograms loads the newest program of each engine into the page cache, so that browsers
// start faster and with less processor time.
func (w *worker) loadPrograms(ctx context.Context) {
	installed, err := w.builds.Find(ctx)
	if err != nil {
		return // launches report it
	}
	for _, engine := range []builds.Engine{builds.Chromium, builds.HeadlessShell} {
		build, ok := builds.Choose(installed, 0, builds.Needs{Engine: engine})
		if !ok {
			continue
		}
		began := time.Now()
		loaded, err := pagecache.Load(ctx, build.Path)
		switch {
		case ctx.Err() != nil, errors.Is(err, pagecache.ErrUnsupported):
			return
		case err != nil:
			w.logger.WarnContext(ctx, "failed to load a browser into the page cache", "path", build.Path, "error", err)
		default:
			w.logger.InfoContext(ctx, "browser loaded into the page cache", "path", build.Path, "bytes", loaded.Size, "hugeBytes", loaded.Huge,
				"took", time.Since(began).Round(time.Millisecond))
		}
	}
}
