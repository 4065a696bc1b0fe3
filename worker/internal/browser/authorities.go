package browser

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

// certDBPath is the certificate database in the home directory, which both engines read when
// they start.
const certDBPath = ".pki/nssdb/cert9.db"

// trustAuthorities writes the certificate authorities of the worker and of the launch for
// the browser, which has not started yet. The sandbox is nil without isolation.
func (b *Browser) trustAuthorities(sb *sandbox.Sandbox) error {
	authorities := slices.Concat(b.l.opts.CACertificates, b.spec.CACertificates)
	if len(authorities) == 0 {
		return nil
	}
	database, err := certificateDB(authorities)
	if err != nil {
		return err
	}
	home, err := b.openHome(sb)
	if err != nil {
		return fmt.Errorf("certificate authorities: %w", err)
	}
	defer home.Close()
	if err := home.MkdirAll(path.Dir(certDBPath), 0o700); err != nil {
		return fmt.Errorf("certificate authorities: %w", err)
	}
	if err := home.WriteFile(certDBPath, database, 0o600); err != nil {
		return fmt.Errorf("certificate authorities: %w", err)
	}
	top, _, _ := strings.Cut(certDBPath, "/")
	created, err := home.OpenRoot(top)
	if err != nil {
		return fmt.Errorf("certificate authorities: %w", err)
	}
	defer created.Close()
	return b.chownAll(created)
}

// openHome opens the home directory.
func (b *Browser) openHome(sb *sandbox.Sandbox) (*os.Root, error) {
	if sb != nil && sb.Root() != nil {
		return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d%s", sb.Root().Fd(), sandbox.HomeDir))
	}
	return os.OpenRoot(b.dirs.home)
}
