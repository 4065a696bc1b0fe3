package install

import (
	"archive/zip"
	"context"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/browser-svc/svc/worker/internal/data/unzip"
)

// maxTarget limits the length of a link's target, in bytes.
const maxTarget = 1024

// writeLink creates a link and checks its target's path. The caller checks that
// it resolves once all entries are written.
func writeLink(ctx context.Context, root *os.Root, f *zip.File, name string) error {
	content, err := f.Open()
	if err != nil {
		return unzip.Unsafe("%w", err)
	}
	defer content.Close()
	target, err := io.ReadAll(io.LimitReader(content, maxTarget+1))
	if err != nil || len(target) > maxTarget || !filepath.IsLocal(path.Join(path.Dir(name), string(target))) || path.IsAbs(string(target)) {
		return unzip.Unsafe("link %q points outside the browser's directory", f.Name)
	}
	if err := unzip.MakeDirs(ctx, root, path.Dir(name)); err != nil {
		return err
	}
	return root.Symlink(string(target), name)
}
