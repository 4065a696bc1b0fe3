package main

import (
	"archive/zip"
	"context"
	"errors"
	"os"
	"path/filepath"
)

// publishedVersion is the version of the browser build in the catalog. The archive
// has a placeholder instead of a browser.
const publishedVersion = "120.0.6099.109"

// publishBuild adds a browser build to the catalog before the cloud starts.
func (h *testEnvironment) publishBuild(ctx context.Context) error {
	archive := filepath.Join(h.data, "chrome.zip")
	if err := writeBuild(archive); err != nil {
		return err
	}
	return h.tool(ctx, "publish", []string{"DATA_DIR=" + filepath.Join(h.data, "cloud")}, filepath.Join(h.outputDir, "svc-cloud"), "releases", "add", archive, "--version", publishedVersion)
}

func writeBuild(name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	w := zip.NewWriter(file)
	header := &zip.FileHeader{Name: "chrome-linux/chrome", Method: zip.Deflate}
	header.SetMode(0o755)
	member, err := w.CreateHeader(header)
	if err == nil {
		_, err = member.Write([]byte("#!/bin/sh\n"))
	}
	return errors.Join(err, w.Close(), file.Close())
}
