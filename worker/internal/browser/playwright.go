package browser

import (
	"context"
	_ "embed"
	"path/filepath"
	"strconv"

	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/data/files"
)

// PlaywrightPath is the path of Playwright's WebSocket on its server.
const PlaywrightPath = "/playwright"

// playwrightLibrary is where Playwright's server sees playwright-core.
const playwrightLibrary = "/svc/playwright-core"

//go:embed playwright.js
var playwrightScript string

// PlaywrightPrograms are the programs of a Playwright server, and its options.
type PlaywrightPrograms struct {
	Node    string // path
	Library string // directory of playwright-core
	FFmpeg  string // path; "" without recordVideo
	SlowMo  int    // pause after each call, in milliseconds
}

// StartPlaywright starts Playwright's server for the browser, and returns when it accepts
// connections. It ends with the browser. Of the launch's files it reads the downloads and
// writes those that a client uploads; its requests leave through the browser's proxy.
// Errors: ErrEnded, ErrNoDriverNetwork.
func (b *Browser) StartPlaywright(ctx context.Context, p PlaywrightPrograms) (*Driver, error) {
	mounts := append([]sandbox.Mount{{From: p.Library, To: playwrightLibrary}}, librariesOf(p.Node)...)
	if p.FFmpeg != "" {
		dir := filepath.Dir(p.FFmpeg)
		mounts = append(mounts, sandbox.Mount{From: dir, To: dir})
	}
	visible := b.paths()
	temp, downloads := visible.tmp, ""
	if b.files != nil {
		downloads = b.downloadPath()
		temp = filepath.Join(visible.files, files.TempBelow)
		mounts = append(mounts, sandbox.Mount{From: filepath.Join(b.dirs.files, files.DownloadsBelow), To: downloads},
			sandbox.Mount{From: filepath.Join(b.dirs.files, files.TempBelow), To: temp, Writable: true})
	}
	return b.startDriver(ctx, true, sandbox.Config{
		Program: p.Node, Env: baseEnv(visible), ReadOnly: mounts,
		Args: []string{
			"-e", playwrightScript, "--", playwrightLibrary, strconv.Itoa(driverPort), PlaywrightPath,
			DriverBrowser, b.WebSocketPath, temp, downloads, strconv.Itoa(p.SlowMo), p.FFmpeg,
		},
	})
}
