package secret

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func key(id byte) Key { return Key{ID: id, Bytes: bytes.Repeat([]byte{id}, KeySize)} }

func mustNew(t *testing.T, current Key, older ...Key) *Box {
	t.Helper()
	box, err := New(current, older...)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func TestOpen_RequiresSameAssociatedData(t *testing.T) {
	box := mustNew(t, key(1))
	sealed, err := box.Seal([]byte("hunter2"), []byte("here"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("hunter2")) {
		t.Error("the ciphertext contains the plain text")
	}
	if plain, err := box.Open(sealed, []byte("here")); err != nil || string(plain) != "hunter2" {
		t.Errorf("Open = %q, %v", plain, err)
	}
	if _, err := box.Open(sealed, []byte("there")); !errors.Is(err, ErrDecrypt) {
		t.Errorf("moved ciphertext: %v; want ErrDecrypt", err)
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := box.Open(changed, []byte("here")); !errors.Is(err, ErrDecrypt) {
			t.Fatalf("byte %d changed: %v; want ErrDecrypt", i, err)
		}
		if _, err := box.Open(sealed[:i], []byte("here")); !errors.Is(err, ErrDecrypt) {
			t.Fatalf("cut at %d: %v; want ErrDecrypt", i, err)
		}
	}
	again, _ := box.Seal([]byte("hunter2"), []byte("here"))
	if bytes.Equal(sealed, again) {
		t.Error("the same secret gives the same ciphertext twice")
	}
}

func TestBox_SupportsKeyRotation(t *testing.T) {
	old, err := mustNew(t, key(1)).Seal([]byte("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	both := mustNew(t, key(2), key(1))
	if plain, err := both.Open(old, nil); err != nil || string(plain) != "x" {
		t.Errorf("the old ciphertext: %q, %v", plain, err)
	}
	fresh, _ := both.Seal([]byte("x"), nil)
	if fresh[0] != 2 {
		t.Errorf("encrypted with key %d; want 2", fresh[0])
	}
	if _, err := mustNew(t, key(1)).Open(fresh, nil); !errors.Is(err, ErrDecrypt) {
		t.Errorf("without the key: %v; want ErrDecrypt", err)
	}
}

// TestBox_RotationWorksAcrossReplicas follows the steps of "svc-cloud secrets rotate
// --help": while replicas restart, those of two steps run concurrently.
func TestBox_RotationWorksAcrossReplicas(t *testing.T) {
	steps := []*Box{mustNew(t, key(1)), mustNew(t, key(1), key(2)), mustNew(t, key(2), key(1))}
	for i, before := range steps[:len(steps)-1] {
		for _, pair := range [][2]*Box{{before, steps[i+1]}, {steps[i+1], before}} {
			sealed, err := pair[0].Seal([]byte("x"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if plain, err := pair[1].Open(sealed, nil); err != nil || string(plain) != "x" {
				t.Errorf("at step %d: Open = %q, %v", i+1, plain, err)
			}
		}
	}
	sealed, err := steps[2].Seal([]byte("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := steps[0].Open(sealed, nil); err == nil {
		t.Error("the intermediate step is not needed")
	}
}

func TestParse(t *testing.T) {
	a := base64.StdEncoding.EncodeToString(key(7).Bytes)
	for text, good := range map[string]bool{
		a: true, "7:" + a: true, "2:" + a + ", 1:" + a: true,
		"": false, "x:" + a: false, "256:" + a: false, "1:???": false, "1:" + a + ",1:" + a: false, "1:AAAA": false,
	} {
		_, err := Parse(text)
		if (err == nil) != good {
			t.Errorf("Parse(%q): %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), a) {
			t.Errorf("the error contains the key: %v", err)
		}
	}
}

func TestLoadOrCreate_CreatesKeyFileOnceForOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret.key")
	boxes := make([]*Box, 8)
	var wg sync.WaitGroup
	for i := range boxes {
		wg.Go(func() {
			box, err := LoadOrCreate(path)
			if err != nil {
				t.Error(err)
			}
			boxes[i] = box
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	sealed, _ := boxes[0].Seal([]byte("x"), nil)
	for i, box := range boxes {
		if _, err := box.Open(sealed, nil); err != nil {
			t.Errorf("caller %d has another key: %v", i, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".key-*")); len(left) > 0 {
		t.Errorf("remaining temporary files: %v", left)
	}
	if err := os.WriteFile(path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreate(path); err == nil {
		t.Error("an invalid key file was accepted or replaced")
	}
}
