package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/browser-svc/svc/worker/internal/browser/builds"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
	"github.com/browser-svc/svc/worker/internal/cdp"
)

// Extension is an unpacked extension.
type Extension struct {
	ChromiumID string // of the key in its manifest
	Dir        string // on the host; unchanged until the browser has ended
}

// ExtensionError means that Chromium has not loaded an extension.
type ExtensionError struct {
	Index  int // in Spec.Extensions
	Reason string
}

// Error implements error.
func (e *ExtensionError) Error() string {
	return fmt.Sprintf("browser: extension %d was not loaded: %s", e.Index, e.Reason)
}

// dir returns the directory of an extension as the browser sees it.
func (e Extension) dir(layout paths) string { return filepath.Join(layout.extensions, e.ChromiumID) }

// extensionFlags load the extensions for this start only: an extension that is loaded
// over the protocol would become part of the data.
func extensionFlags(s *Spec, layout paths) []string {
	if len(s.Extensions) == 0 {
		return nil
	}
	dirs := make([]string, 0, len(s.Extensions))
	for _, e := range s.Extensions {
		dirs = append(dirs, e.dir(layout))
	}
	return []string{"--load-extension=" + strings.Join(dirs, ",")}
}

// extensionPolicy returns the managed policy for extensions, however they are loaded: none but
// those of the launch. Chromium loads none of them if all others are blocked, so if there are
// any, others are only denied what reaches beyond pages.
func extensionPolicy(s *Spec) []byte {
	if s.Build.Engine == builds.HeadlessShell {
		return nil
	}
	const programs = "nativeMessaging" // that are outside of the browser
	extensions := object{"*": object{"installation_mode": "blocked"}}
	if len(s.Extensions) > 0 {
		extensions["*"] = object{"blocked_permissions": []string{
			programs, "browsingData", "contentSettings", "debugger", "downloads", "management", "privacy", "proxy",
		}}
	}
	for _, e := range s.Extensions {
		extensions[e.ChromiumID] = object{"installation_mode": "allowed", "blocked_permissions": []string{programs}}
	}
	raw, _ := json.Marshal(object{"ExtensionSettings": extensions, "NativeMessagingBlocklist": []string{"*"}}) // of texts
	return raw
}

// extensionDirs are the directories of extensions that the sandbox shows.
func (b *Browser) extensionDirs() []sandbox.Mount {
	private := b.l.hasPrivateFiles()
	mounts := make([]sandbox.Mount, 0, len(b.spec.Extensions))
	for _, e := range b.spec.Extensions {
		mountPoint := e.dir(b.paths())
		source := mountPoint
		if private {
			source = e.Dir
		}
		mounts = append(mounts, sandbox.Mount{From: source, To: mountPoint})
	}
	return mounts
}

// copyExtensions copies the extensions for a browser whose files are not private: its
// user may not be able to reach the originals.
func (b *Browser) copyExtensions() error {
	if len(b.spec.Extensions) == 0 || b.l.hasPrivateFiles() {
		return nil
	}
	if strings.Contains(b.dirs.extensions, ",") {
		return fmt.Errorf("copy extensions: Chromium cannot load them from %s, because the path contains a comma", b.dirs.extensions)
	}
	for _, e := range b.spec.Extensions {
		if err := os.CopyFS(e.dir(b.dirs.hostPaths()), os.DirFS(e.Dir)); err != nil {
			return fmt.Errorf("copy extension: %w", err)
		}
	}
	root, err := os.OpenRoot(b.dirs.extensions)
	if err != nil {
		return fmt.Errorf("copy extensions: %w", err)
	}
	defer root.Close()
	return b.chownAll(root)
}

// loadedExtension is an extension as Chromium lists it.
type loadedExtension struct {
	ID      string
	Enabled bool
}

// checkExtensions returns an ExtensionError if Chromium has not loaded an extension.
// Chromium loads them before it answers, and reports a failure only in its log. A version
// without the call is not checked.
func (b *Browser) checkExtensions(ctx context.Context) error {
	if len(b.spec.Extensions) == 0 {
		return nil
	}
	var loaded struct{ Extensions []loadedExtension }
	err := b.conn.Call(ctx, "", "Extensions.getExtensions", nil, &loaded)
	if refused, ok := errors.AsType[*cdp.Error](err); ok {
		b.l.log.Debug("this build does not list its extensions", "launchId", b.LaunchID, "error", refused)
		return nil
	}
	if err != nil {
		return err
	}
	for i, e := range b.spec.Extensions {
		index := slices.IndexFunc(loaded.Extensions, func(l loadedExtension) bool { return l.ID == e.ChromiumID })
		switch {
		case index < 0:
			return &ExtensionError{Index: i, Reason: b.extensionProblem(ctx, e)}
		case !loaded.Extensions[index].Enabled:
			return &ExtensionError{Index: i, Reason: "it is disabled"}
		}
	}
	return nil
}

// extensionProblem asks Chromium why it has not loaded an extension.
func (b *Browser) extensionProblem(ctx context.Context, e Extension) string {
	err := b.conn.Call(ctx, "", "Extensions.loadUnpacked", object{"path": e.dir(b.paths())}, nil)
	if refused, ok := errors.AsType[*cdp.Error](err); ok {
		return refused.Message
	}
	return "Chromium gives no reason"
}
