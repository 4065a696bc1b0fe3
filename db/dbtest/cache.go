package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/browser-svc/svc/db/embedded"
)

// maxClusters is the maximum number of cached clusters. There is one for each version of
// the migrations, of about 50 MB.
const maxClusters = 4

// copyCluster copies a cluster with the template from the user's cache directory.
// The cached cluster is created once for each version of the migrations.
func copyCluster(ctx context.Context, dst string) error {
	bin, err := embedded.FindBin(ctx, "")
	if err != nil {
		return err
	}
	version, err := embedded.Version(ctx, bin)
	if err != nil {
		return err
	}
	name, err := templateName()
	if err != nil {
		return err
	}
	root, err := cacheRoot()
	if err != nil {
		return err
	}
	unlock, err := lockFile(filepath.Join(root, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	dir := filepath.Join(root, version+"-"+name)
	if _, err := os.Stat(dir); err != nil {
		if err := makeCluster(ctx, dir); err != nil {
			return fmt.Errorf("create the test cluster: %w", err)
		}
	}
	now := time.Now()
	if err := os.Chtimes(dir, now, now); err != nil {
		return err
	}
	evictOld(root)
	if err := copyTree(dir, dst); err != nil {
		return fmt.Errorf("copy the test cluster: %w", err)
	}
	return nil
}

// makeCluster creates the cluster in a temporary directory, which the server's user
// can access, and moves it to the cache when it is complete.
func makeCluster(ctx context.Context, final string) error {
	dir, err := os.MkdirTemp(scratchDir(), dirPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	running, err := embedded.Start(ctx, options(data))
	if err != nil {
		return err
	}
	s, err := connect(ctx, running.AdminDSN())
	if err == nil {
		err = s.ensureTemplate(ctx)
		s.admin.Close()
	}
	if err = errors.Join(err, running.Stop(ctx)); err != nil {
		return err
	}
	next := final + ".new"
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	if err := copyTree(data, next); err != nil {
		return err
	}
	if err := syncFS(next); err != nil { // the server did not sync them
		return err
	}
	return os.Rename(next, final)
}

// cacheRoot returns a directory below the user's cache directory, or a temporary
// directory if there is none.
func cacheRoot() (string, error) {
	if base, err := os.UserCacheDir(); err == nil {
		root := filepath.Join(base, "svc-dbtest")
		if os.MkdirAll(root, 0o700) == nil {
			return root, nil
		}
	}
	root := filepath.Join(os.TempDir(), "svc-dbtest-cache-"+strconv.Itoa(os.Getuid()))
	return root, os.MkdirAll(root, 0o700)
}

// evictOld removes the least recently used clusters.
func evictOld(root string) {
	dirs, _ := filepath.Glob(filepath.Join(root, "*-svc_template_*")) // fails only for an invalid pattern
	used := map[string]time.Time{}
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil {
			used[dir] = info.ModTime()
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return used[b].Compare(used[a]) })
	for _, dir := range dirs[min(maxClusters, len(dirs)):] {
		os.RemoveAll(dir)
	}
}
