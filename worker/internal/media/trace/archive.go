package trace

import (
	"archive/zip"
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Parts are the files of a recorded trace.
type Parts struct {
	Events, Network, Resources, Index io.Reader
	ResourceBytes                     int64 // of Resources
}

// WriteZip writes the trace as an archive for the viewer, without reading all of it first.
func WriteZip(w io.Writer, p Parts) error {
	archive := zip.NewWriter(w)
	for _, part := range []struct {
		name  string
		lines io.Reader
	}{{"trace.trace", p.Events}, {"trace.network", p.Network}} {
		entry, err := archive.Create(part.name)
		if err != nil {
			return err
		}
		if err := copyLines(entry, part.lines); err != nil {
			return err
		}
	}
	index := bufio.NewScanner(p.Index)
	for remaining := p.ResourceBytes; index.Scan(); {
		var r resource
		if json.Unmarshal(index.Bytes(), &r) != nil { // the last line of a worker that was killed
			break
		}
		if remaining -= int64(r.Bytes); remaining < 0 {
			break
		}
		entry, err := archive.CreateHeader(&zip.FileHeader{Name: "resources/" + r.Name, Method: zip.Store}) // JPEGs are compressed
		if err != nil {
			return err
		}
		if _, err := io.CopyN(entry, p.Resources, int64(r.Bytes)); err != nil {
			return fmt.Errorf("resource %s: %w", r.Name, err)
		}
	}
	if err := index.Err(); err != nil {
		return err
	}
	return archive.Close()
}

// copyLines copies complete lines: a worker that was killed may have left a part of one.
func copyLines(w io.Writer, r io.Reader) error {
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
}
