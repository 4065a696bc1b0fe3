package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// debianPackages are what the images of the worker, HAProxy and PostgreSQL need: without a registry, they share a Debian.
// Those of the worker are in worker/Dockerfile, but for ffmpeg: no proof records a video.
var debianPackages = []string{
	"ca-certificates", "chromium", "chromium-driver", "fonts-liberation", "fonts-noto-core", "fonts-noto-cjk", "fonts-noto-color-emoji",
	"tigervnc-standalone-server", "tini", "haproxy", "postgresql",
}

// sandboxTests is the program with the tests of the worker's sandbox.
const sandboxTests = "sandbox.test"

// postgresEntrypoint is what the chart uses of the official image's entrypoint.
const postgresEntrypoint = `#!/bin/bash
set -euo pipefail
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  initdb --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --auth-local=trust --auth-host=scram-sha-256 --pgdata="$PGDATA"
  echo "listen_addresses = '*'" >> "$PGDATA/postgresql.conf"
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  pg_ctl --wait --pgdata="$PGDATA" --options="-c listen_addresses=''" start
  createdb --username="$POSTGRES_USER" "$POSTGRES_DB"
  pg_ctl --wait --pgdata="$PGDATA" stop
fi
exec "$@"
`

const (
	users  = "root:x:0:0::/root:/bin/sh\npostgres:x:999:999::/tmp:/bin/sh\nsvc:x:65532:65532::/data:/usr/sbin/nologin\n"
	groups = "root:x:0:\npostgres:x:999:\nsvc:x:65532:\n"
)

// image is an image to make from layers.
type image struct {
	names  []string
	layers []string // files
	config imageConfig
}

type imageConfig struct {
	User       string   `json:",omitempty"`
	Env        []string `json:",omitempty"`
	Entrypoint []string `json:",omitempty"`
	Cmd        []string `json:",omitempty"`
	StopSignal string   `json:",omitempty"`
}

// file is a file of a layer.
type file struct {
	path    string
	mode    int64
	content []byte
}

func imagesFile(base string) string { return filepath.Join(base, "images", "images.tar") }

// buildImages writes an archive of all images of the cluster and the chart.
func buildImages(ctx context.Context, base string) error {
	dir := filepath.Join(base, "images")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	packages := sha256.Sum256([]byte(strings.Join(debianPackages, " ")))
	debian := filepath.Join(dir, fmt.Sprintf("debian-%x.tar", packages[:4]))
	if _, err := os.Stat(debian); errors.Is(err, fs.ErrNotExist) {
		if err := bootstrapDebian(ctx, debian); err != nil {
			return err
		}
	}
	logf("building the images")
	programs := make(map[string][]byte)
	for _, name := range []string{"svc-cloud", "svc-worker", sandboxTests, "coredns"} {
		content, err := os.ReadFile(filepath.Join(base, "bin", name))
		if err != nil {
			return err
		}
		programs[name] = content
	}
	layer := func(name string) string { return filepath.Join(dir, name+".tar") }
	for name, files := range map[string][]file{
		"users":      {{"etc/passwd", 0o644, []byte(users)}, {"etc/group", 0o644, []byte(groups)}},
		"svc-cloud":  {{"usr/bin/svc-cloud", 0o755, programs["svc-cloud"]}},
		"svc-worker": {{"usr/local/bin/svc-worker", 0o111, programs["svc-worker"]}},
		sandboxTests: {{"work/" + sandboxTests, 0o755, programs[sandboxTests]}},
		"coredns":    {{"coredns", 0o755, programs["coredns"]}},
		"postgres":   {{"usr/local/bin/docker-entrypoint.sh", 0o755, []byte(postgresEntrypoint)}},
	} {
		if err := writeLayer(layer(name), files); err != nil {
			return err
		}
	}
	const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	postgres, err := postgresDirectory(debian)
	if err != nil {
		return err
	}
	return writeArchive(imagesFile(base), []image{
		{[]string{"docker.io/library/svc-cloud:first", "docker.io/library/svc-cloud:second"}, []string{layer("svc-cloud")}, imageConfig{
			User: "65532:65532", Env: []string{"PATH=/usr/bin"}, Entrypoint: []string{"svc-cloud"},
		}},
		{[]string{"docker.io/library/svc-worker:first", "docker.io/library/svc-worker:second"}, []string{debian, layer("users"), layer("svc-worker")}, imageConfig{
			User: "65532:65532", Env: []string{path}, Entrypoint: []string{"tini", "--", "svc-worker"},
		}},
		{[]string{"docker.io/library/svc-worker:tests"}, []string{debian, layer("users"), layer("svc-worker"), layer(sandboxTests)}, imageConfig{
			User: "65532:65532", Env: []string{path},
		}},
		{[]string{"docker.io/library/haproxy:2.6"}, []string{debian, layer("users")}, imageConfig{Env: []string{path}, Cmd: []string{"haproxy"}, StopSignal: "SIGUSR1"}},
		{[]string{"docker.io/library/postgres:15"}, []string{debian, layer("users"), layer("postgres")}, imageConfig{
			Env: []string{path + ":" + postgres}, Entrypoint: []string{"docker-entrypoint.sh"}, Cmd: []string{"postgres"}, StopSignal: "SIGINT",
		}},
		{[]string{pauseImage}, []string{debian}, imageConfig{Env: []string{path}, Entrypoint: []string{"sleep", "infinity"}}},
		{[]string{"svc.test/coredns:1"}, []string{layer("coredns")}, imageConfig{Entrypoint: []string{"/coredns"}}},
	})
}

// bootstrapDebian writes a Debian tree with debianPackages, from the package sources of this machine.
func bootstrapDebian(ctx context.Context, path string) error {
	logf("unpacking a Debian with %s", strings.Join(debianPackages, ", "))
	sources, err := filepath.Glob("/etc/apt/sources.list.d/*.sources")
	if err != nil {
		return err
	}
	lists, err := filepath.Glob("/etc/apt/sources.list")
	if err != nil {
		return err
	}
	release, err := output(ctx, "bash", "-c", ". /etc/os-release && echo $VERSION_CODENAME")
	if err != nil {
		return err
	}
	args := []string{
		"--mode=root", "--variant=apt", "--include=" + strings.Join(debianPackages, ","), `--aptopt=Apt::Install-Recommends "false"`,
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
	}
	settings, err := output(ctx, "apt-config", "dump", "Acquire") // such as proxies
	if err != nil {
		return err
	}
	for setting := range strings.Lines(settings) {
		if setting = strings.TrimSpace(setting); !strings.HasSuffix(setting, `"";`) {
			args = append(args, "--aptopt="+setting)
		}
	}
	part := path + ".part.tar"
	args = append(append(args, strings.TrimSpace(release), part), append(lists, sources...)...)
	if _, err := output(ctx, "mmdebstrap", args...); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// postgresDirectory returns the directory of PostgreSQL's programs in the Debian tree.
func postgresDirectory(debian string) (string, error) {
	found := ""
	err := eachFile(debian, func(header *tar.Header, _ io.Reader) error {
		if name := strings.TrimPrefix(header.Name, "."); strings.HasPrefix(name, "/usr/lib/postgresql/") && strings.HasSuffix(name, "/bin/initdb") {
			found = filepath.Dir(name)
		}
		return nil
	})
	if err == nil && found == "" {
		err = fmt.Errorf("%s contains no PostgreSQL", debian)
	}
	return found, err
}

func eachFile(archive string, do func(*tar.Header, io.Reader) error) error {
	input, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer input.Close()
	for reader := tar.NewReader(input); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		if err := do(header, reader); err != nil {
			return err
		}
	}
}

func writeLayer(path string, files []file) error {
	var content bytes.Buffer
	out := tar.NewWriter(&content)
	for _, f := range files {
		if err := out.WriteHeader(&tar.Header{Name: f.path, Mode: f.mode, Size: int64(len(f.content))}); err != nil {
			return err
		}
		if _, err := out.Write(f.content); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, content.Bytes(), 0o644)
}

// writeArchive writes images as `docker save` does. Images share their layers.
func writeArchive(path string, images []image) error {
	type entry struct {
		Config           string
		RepoTags, Layers []string
	}
	var manifest []entry
	digests := make(map[string]string) // by layer file
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	archive := tar.NewWriter(out)
	add := func(name string, size int64, content io.Reader) error {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size}); err != nil {
			return err
		}
		_, err := io.Copy(archive, content)
		return err
	}
	for _, image := range images {
		var e entry
		var ids []string
		for _, layer := range image.layers {
			if digests[layer] == "" {
				if digests[layer], err = addLayer(layer, add); err != nil {
					return err
				}
			}
			e.Layers, ids = append(e.Layers, digests[layer]+".tar"), append(ids, "sha256:"+digests[layer])
		}
		config, err := json.Marshal(map[string]any{
			"architecture": runtime.GOARCH, "os": "linux", "config": image.config, "rootfs": map[string]any{"type": "layers", "diff_ids": ids},
		})
		if err != nil {
			return err
		}
		digest := sha256.Sum256(config)
		e.Config, e.RepoTags = hex.EncodeToString(digest[:])+".json", image.names
		if err := add(e.Config, int64(len(config)), bytes.NewReader(config)); err != nil {
			return err
		}
		manifest = append(manifest, e)
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	if err := add("manifest.json", int64(len(text)), bytes.NewReader(text)); err != nil {
		return err
	}
	return errors.Join(archive.Close(), out.Close())
}

// addLayer adds a layer to an archive and returns its digest.
func addLayer(path string, add func(name string, size int64, content io.Reader) error) (string, error) {
	input, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer input.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, input)
	if err != nil {
		return "", err
	}
	if _, err := input.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	digest := hex.EncodeToString(hash.Sum(nil))
	return digest, add(digest+".tar", size, input)
}
