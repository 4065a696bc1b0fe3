package secret

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// LoadOrCreate returns the Box of the key file at path, in the format of Parse. If the
// file does not exist, it creates one with a random key that only the owner can read.
// Concurrent callers get the same key.
func LoadOrCreate(path string) (*Box, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createKeyFile(path); err != nil {
			return nil, fmt.Errorf("create the secret key file: %w", err)
		}
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the secret key file: %w", err)
	}
	box, err := Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("read the secret key file %s: %w", path, err)
	}
	return box, nil
}

// createKeyFile writes the key to a temporary file and links it to path. The file
// appears complete, and an existing file is kept.
func createKeyFile(path string) error {
	key := make([]byte, KeySize)
	rand.Read(key)                                           // never fails
	file, err := os.CreateTemp(filepath.Dir(path), ".key-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString("1:" + base64.StdEncoding.EncodeToString(key) + "\n")
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
