package secret

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
)

// FuzzOpen: only an unchanged ciphertext can be decrypted, at its place and by a Box
// that has the key.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("password"), []byte("proxy:1"), []byte("proxy:1"), uint16(0), byte(0), []byte(nil))
	f.Add([]byte("password"), []byte("proxy:1"), []byte("proxy:2"), uint16(0), byte(0), []byte(nil))
	f.Add([]byte(""), []byte(""), []byte(""), uint16(0), byte(3), []byte(nil))
	f.Add([]byte("x"), []byte("a"), []byte("a"), uint16(20), byte(1), []byte(nil))
	f.Add([]byte("x"), []byte("a"), []byte("a"), uint16(0), byte(0), make([]byte, 29))
	f.Add([]byte("x"), []byte("a"), []byte("a"), uint16(0), byte(0), []byte{2})
	old := Key{ID: 1, Bytes: bytes.Repeat([]byte{1}, KeySize)}
	recent := Key{ID: 2, Bytes: bytes.Repeat([]byte{2}, KeySize)}
	before, err := New(old)
	if err != nil {
		f.Fatal(err)
	}
	box, err := New(recent, old)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, plain, aad, elsewhere []byte, position uint16, change byte, garbage []byte) {
		for name, sealer := range map[string]*Box{"before": before, "now": box} {
			sealed, err := sealer.Seal(plain, aad)
			if err != nil {
				t.Fatal(err)
			}
			if len(plain) > 8 && bytes.Contains(sealed, plain) {
				t.Errorf("%s: the ciphertext contains the plain text", name)
			}
			if got, err := box.Open(sealed, aad); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%s: decrypted as %q: %v", name, got, err)
			}
			if got, err := box.Open(sealed, elsewhere); (err == nil) != bytes.Equal(aad, elsewhere) || err == nil && !bytes.Equal(got, plain) {
				t.Errorf("%s: decrypted with another aad: %q, %v", name, got, err)
			}
			changed := bytes.Clone(sealed)
			changed[int(position)%len(changed)] ^= change
			if _, err := box.Open(changed, aad); (err == nil) != (change == 0) || err != nil && !errors.Is(err, ErrDecrypt) {
				t.Errorf("%s: decrypted with byte %d changed by %d: %v", name, int(position)%len(changed), change, err)
			}
			if _, err := box.Open(sealed[:int(position)%len(sealed)], aad); !errors.Is(err, ErrDecrypt) {
				t.Errorf("%s: decrypted the first %d bytes: %v", name, int(position)%len(sealed), err)
			}
			if _, err := before.Open(sealed, aad); (err == nil) != (name == "before") {
				t.Errorf("%s: a box without the key: %v", name, err)
			}
		}
		if got, err := box.Open(garbage, aad); !errors.Is(err, ErrDecrypt) || got != nil {
			t.Errorf("random bytes were decrypted as %q: %v", got, err)
		}
	})
}

// FuzzParse: a configuration yields a working Box, or an error that contains no key.
func FuzzParse(f *testing.F) {
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, KeySize))
	other := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, KeySize))
	for _, text := range []string{key, "1:" + key, "2:" + key + ", 1:" + other, "1:" + key + ",1:" + other, "256:" + key, "x", "1:" + key[:20], "1:" + key[:21], "", ",", "-1:" + key, "007:" + key} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		box, err := Parse(text)
		if err != nil {
			for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ':' || r == ' ' }) {
				if len(part) > 5 && strings.Contains(err.Error(), part) && !strings.Contains("the id of a secret key must be a number from 0 to 255 is not base64 occurs twice has bytes, not 32", part) {
					t.Errorf("the error contains %q: %v", part, err)
				}
			}
			return
		}
		parts := strings.Split(text, ",")
		if len(box.keys) != len(parts) {
			t.Errorf("got %d keys, want %d", len(box.keys), len(parts))
		}
		sealed, err := box.Seal([]byte("x"), nil)
		if err != nil {
			t.Fatal(err)
		}
		first, err := Parse(parts[0])
		if err != nil {
			t.Fatalf("the first key alone: %v", err)
		}
		if got, err := first.Open(sealed, nil); err != nil || string(got) != "x" {
			t.Errorf("does not encrypt with the first key: %v", err)
		}
	})
}
