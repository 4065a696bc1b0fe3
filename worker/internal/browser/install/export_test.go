package install

import "context"

// Unpack unpacks an archive without downloading it.
func (i *Installer) Unpack(ctx context.Context, archive, dir string) (executable string, err error) {
	return i.unpack(ctx, archive, dir)
}
