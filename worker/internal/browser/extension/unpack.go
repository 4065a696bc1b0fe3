package extension

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"github.com/browser-svc/svc/worker/internal/data/unzip"
)

// limits limit the unpacked files. They are several times those of large extensions.
var limits = unzip.Limits{Bytes: 256 << 20, Entries: 20_000, Ratio: 200}

// ignoredDir contains the hashes of the files of the Chrome Web Store. Chromium refuses an
// unpacked extension with it.
const ignoredDir = "_metadata/"

// unpack unpacks a package into the empty directory root and returns its manifest, which
// has a key. The caller sets what does not depend on the content. Errors: Validation.
func unpack(ctx context.Context, file *os.File, size int64, id string, root *os.Root) (Extension, error) {
	key, offset, err := readCRX(file, size)
	if err != nil {
		return Extension{}, invalidPackage("is not a valid CRX file: %v", err)
	}
	archive, err := zip.NewReader(io.NewSectionReader(file, offset, size-offset), size-offset)
	if err != nil {
		return Extension{}, invalidPackage("must be a zip archive or a CRX3 file: %v", err)
	}
	contents, err := unzip.Inspect(archive.File, size, limits)
	if err != nil {
		return Extension{}, invalidPackage("cannot be unpacked: %v", err)
	}
	if len(contents.Links) > 0 {
		return Extension{}, invalidPackage("contains a symbolic link: %q", contents.Links[0].Name)
	}
	m, top, err := readManifest(contents)
	if err != nil {
		return Extension{}, err
	}
	chromiumID, err := m.setKey(key, id)
	if err != nil {
		return Extension{}, err
	}
	if err := writeFiles(ctx, root, contents, top, m); err != nil {
		return Extension{}, err
	}
	return Extension{
		ID: id, ChromiumID: chromiumID, Name: m.shownName(root.FS()), Version: m.text("version"), ManifestVersion: manifestVersion,
		Size: size, Permissions: m.permissions(),
	}, nil
}

// readManifest finds and reads the manifest. top is its directory in the archive, empty
// or with a slash.
func readManifest(contents *unzip.Contents) (m manifest, top string, err error) {
	var found []*zip.File
	for _, f := range contents.Files {
		if dir, name := path.Split(f.Name); name == manifestFile && strings.Count(dir, "/") <= 1 {
			if dir == "" {
				found = []*zip.File{f}
				break
			}
			found = append(found, f)
		}
	}
	if len(found) != 1 {
		return nil, "", invalidPackage("must have one manifest.json, at the top of the archive or in its only folder")
	}
	if found[0].UncompressedSize64 > maxManifest {
		return nil, "", invalidPackage("has a manifest.json of more than %d bytes", maxManifest)
	}
	content, err := found[0].Open()
	if err != nil {
		return nil, "", invalidPackage("cannot be unpacked: %v", err)
	}
	defer content.Close()
	raw, err := io.ReadAll(io.LimitReader(content, maxManifest))
	if err != nil {
		return nil, "", invalidPackage("cannot be unpacked: %v", err)
	}
	top, _ = path.Split(found[0].Name)
	m, err = parseManifest(raw)
	return m, top, err
}

// writeFiles writes the files below top, and the manifest with its key.
func writeFiles(ctx context.Context, root *os.Root, contents *unzip.Contents, top string, m manifest) error {
	for _, f := range contents.Files {
		name, ok := strings.CutPrefix(f.Name, top)
		if !ok || name == manifestFile || strings.HasPrefix(name, ignoredDir) {
			continue
		}
		if err := unzip.WriteFile(ctx, root, f, name, 0o644); errors.Is(err, unzip.ErrUnsafe) {
			return invalidPackage("cannot be unpacked: %q: %v", f.Name, err)
		} else if err != nil {
			return err
		}
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := unzip.MakeDirs(ctx, root, "."); err != nil {
		return err
	}
	if err := root.WriteFile(manifestFile, raw, 0o644); err != nil {
		return err
	}
	return root.Chmod(manifestFile, 0o644) // regardless of the umask
}
