package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
)

// packExtension returns the package of a new extension.
func packExtension() ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	f, err := w.Create("manifest.json")
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(f, `{"manifest_version":3,"name":"%s","version":"1.0"}`, rand.Text()); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// newExtension stores an extension and returns its id.
func (p *exampleRunner) newExtension(ctx context.Context) (string, error) {
	content, err := packExtension()
	if err != nil {
		return "", err
	}
	worker, err := p.worker(p.seed.WorkerKey)
	if err != nil {
		return "", err
	}
	response, err := requireSuccess(worker.CreateExtensionWithBodyWithResponse(ctx, "application/octet-stream", bytes.NewReader(content)))
	if err != nil {
		return "", fmt.Errorf("store an extension: %w", err)
	}
	return response.JSON201.Data.Id, nil
}

// extensionSetup is a setup with a new extension.
func (p *exampleRunner) extensionSetup(ctx context.Context) (exampleSetup, error) {
	id, err := p.newExtension(ctx)
	return exampleSetup{path: map[string]string{"extensionId": id}}, err
}
